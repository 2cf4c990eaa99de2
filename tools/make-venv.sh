#!/bin/sh
# Makes the virtual environment $1 with the first Python that is new enough, or $PYTHON where it is set.
set -eu

venv=$1
least='import sys; sys.exit(sys.version_info < (3, 11))'

if [ -n "${PYTHON:-}" ]; then
	set -- "$PYTHON"
else
	set -- python3.13 python3.12 python3.11 python3 python
fi
found=
for candidate in "$@"; do
	# Run it: version managers put names on PATH that only print an error.
	if "$candidate" -c "$least" >/dev/null 2>&1; then
		found=$candidate
		break
	fi
done
if [ -z "$found" ]; then
	echo "indexgrep needs Python 3.11 or later; tried: $*." >&2
	echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2
	exit 1
fi

echo "making $venv with $("$found" -c 'import sys; print(sys.executable, "%d.%d.%d" % sys.version_info[:3])')"
if ! "$found" -m venv "$venv"; then
	rm -rf "$venv"
	echo "$found cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2
	exit 1
fi
