#!/bin/sh
# Checks (or with `format` rewrites) Lua files and folders with stylua and luacheck, and says which of the two
# this machine has not. stylua comes from PATH, else as a library from npm, run by tools/stylua.mjs.
set -eu

mode=$1
shift
if [ $# -eq 0 ]; then
	exit 0
fi
here=$(dirname "$0")
check=--check
if [ "$mode" = format ]; then
	check=
fi

if command -v stylua >/dev/null 2>&1; then
	stylua $check "$@"
	echo "stylua: ok"
elif ! command -v npm >/dev/null 2>&1; then
	echo "stylua: skipped, there is neither stylua nor npm on PATH"
elif ! [ -d "$here/node_modules/@johnnymorganz/stylua" ] &&
	! npm install --prefix "$here" --silent --no-audit --no-fund --no-package-lock >/dev/null 2>&1; then
	echo "stylua: skipped, npm could not install it"
else
	node "$here/stylua.mjs" $check "$@"
	echo "stylua: ok"
fi

if [ "$mode" = format ]; then
	exit 0
fi
if command -v luacheck >/dev/null 2>&1; then
	luacheck --quiet "$@"
else
	echo "luacheck: skipped, it is not on PATH (Debian: apt-get install lua-check)"
fi
