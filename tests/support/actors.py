"""Those who change a tree at the same time, each of whom looks for what it has just done.

An *actor* writes words that nobody else writes, and after each thing it does searches for them: those that it
has written must be found, just where they are, those that it has removed nowhere. What others do meanwhile
must not show in its answers. ``python -m support.actors ROOT SEED`` is one in a process of its own.
"""

from __future__ import annotations

import abc
import os
import random
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from indexgrep.client import Client

from .editor import Editor

#: What an editor does to ask: to the end of the answer, so that the answer is returned.
ASKING = """
function _G.ask(pattern, options)
  local files, last = {}, nil
  require('indexgrep').search(pattern, options, function(event)
    if event.event == 'results' then
      for _, file in ipairs(event.files) do
        table.insert(files, { file.path, file.source or 'disk' })
      end
    elseif event.event ~= 'progress' then
      last = event
    end
  end)
  vim.wait(60000, function() return last ~= nil end, 1)
  return { files, last or { event = 'none' } }
end
"""

Found = Sequence[tuple[str, str]]


class Actor(threading.Thread, abc.ABC):
    """One actor, in a thread. ``stop`` ends it after the round it is in; ``fault`` is why it ended before."""

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(name=name, daemon=True)
        self.root = root
        self.rounds = 0
        self.fault = ""
        #: The words that are in the tree by this actor, with where they are, and those that were before.
        self.words: dict[str, list[str]] = {}
        self.gone: list[str] = []
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                self.round()
                self.rounds += 1
        except BaseException:
            self.fault = f"{self.name}, round {self.rounds}: {traceback.format_exc()}"
        finally:
            self.leave()

    def stop(self) -> None:
        self._stop_asked.set()

    def leave(self) -> None:
        """Free what only this thread can."""

    @abc.abstractmethod
    def round(self) -> None:
        """Do something, and look for it."""

    @abc.abstractmethod
    def ask(self, pattern: str) -> Found:
        """The files that a complete answer without errors has, with the source of each."""

    # Keeping account

    def word(self) -> str:
        """A word that nobody else has, and that is in no other word."""
        return f"word_{self.name}_{self.rounds:06}_x"

    def wrote(self, word: str, *paths: str) -> None:
        self.words[word] = sorted(paths)

    def removed(self, *words: str) -> None:
        for word in words:
            self.words.pop(word, None)
            self.gone.append(word)

    def look(self, *words: str, source: str = "disk") -> None:
        """Find these, and the last that were removed nowhere."""
        for word in words:
            found = sorted(self.ask(word))
            assert found == [(path, source) for path in self.words[word]], f"{word}: {found}"
        for word in self.gone[-2:]:
            found = self.ask(word)
            assert not found, f"{word} is gone: {found}"


class ClientActor(Actor):
    """An actor with a client of its own."""

    def __init__(self, name: str, root: Path, **options: Any) -> None:
        super().__init__(name, root)
        self.options = options
        self.client = Client(root)

    def ask(self, pattern: str) -> Found:
        return asked(self.client, pattern, **self.options)

    def leave(self) -> None:
        self.client.close()


def asked(client: Client, pattern: str, **options: Any) -> list[tuple[str, str]]:
    search = client.search(pattern, **options)
    files = list(search.files())
    assert search.summary is not None
    assert search.summary.complete
    assert not search.summary.errors, [(file.path, file.error) for file in files if file.error]
    return [(file.path, file.source) for file in files]


class Writer(ClientActor):
    """Files and directories are made, edited, renamed, exchanged and removed, in a directory of its own."""

    def __init__(self, name: str, root: Path, seed: int) -> None:
        super().__init__(name, root)
        self.random = random.Random(seed)
        self.directory = root / name
        self.directory.mkdir(exist_ok=True)
        #: The words of each file, by path below the root.
        self.files: dict[str, str] = {}

    def round(self) -> None:
        word = self.word()
        kinds = [self._create, self._create, self._burst]
        if self.files:
            kinds += [self._edit, self._edit_in_secret, self._replace, self._rename, self._remove]
            kinds += [self._rename_directory, self._directory_for_file]
        self.random.choice(kinds)(word)

    def _any(self) -> str:
        return self.random.choice(list(self.files))

    def _new(self) -> str:
        depth = self.random.choice(("", "a/", "a/b/", f"new{self.rounds}/"))
        return f"{self.name}/{depth}file{self.rounds}.txt"

    def _put(self, path: str, word: str) -> None:
        if path in self.files:
            self.removed(self.files[path])
        self.files[path] = word
        self.wrote(word, path)

    def _create(self, word: str) -> None:
        path = self._new()
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"{word}\n")
        self._put(path, word)
        self.look(word)

    def _edit(self, word: str) -> None:
        path = self._any()
        (self.root / path).write_text(f"{word}\n")
        self._put(path, word)
        self.look(word)

    def _edit_in_secret(self, word: str) -> None:
        path = self._any()
        before = (self.root / path).stat()
        with open(self.root / path, "r+") as file:
            file.write(word)
        os.utime(self.root / path, ns=(before.st_atime_ns, before.st_mtime_ns))
        self._put(path, word)
        self.look(word)

    def _replace(self, word: str) -> None:
        path = self._any()
        new = (self.root / path).with_suffix(".new")
        new.write_text(f"{word}\n")
        new.replace(self.root / path)
        self._put(path, word)
        self.look(word)

    def _rename(self, word: str) -> None:
        path, target = self._any(), self._new()
        (self.root / target).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).rename(self.root / target)
        moved = self.files.pop(path)
        self.files[target] = moved
        self.wrote(moved, target)
        self.look(moved)

    def _remove(self, word: str) -> None:
        path = self._any()
        (self.root / path).unlink()
        self.removed(self.files.pop(path))
        self.look()

    def _rename_directory(self, word: str) -> None:
        directory = f"{os.path.dirname(self._any())}/"
        if directory == f"{self.name}/":
            return
        target = f"{self.name}/moved{self.rounds}/"
        (self.root / directory).rename(self.root / target)
        for path in [path for path in self.files if path.startswith(directory)]:
            moved = self.files.pop(path)
            self.files[target + path.removeprefix(directory)] = moved
            self.wrote(moved, target + path.removeprefix(directory))
        self.look(*[self.files[path] for path in self.files if path.startswith(target)][:2])

    def _directory_for_file(self, word: str) -> None:
        path = self._any()
        (self.root / path).unlink()
        self.removed(self.files.pop(path))
        self._put(f"{path}/inside.txt", word)
        (self.root / path).mkdir()
        (self.root / path / "inside.txt").write_text(f"{word}\n")
        self.look(word)

    def _burst(self, word: str) -> None:
        """More files than stay hot for long come at once, or go."""
        directory = f"{self.name}/burst"
        gone = [path for path in self.files if path.startswith(f"{directory}/")]
        if (self.root / directory).exists():
            shutil.rmtree(self.root / directory)
            self.removed(*(self.files.pop(path) for path in gone))
            return self.look()
        (self.root / directory).mkdir()
        for number in range(100):
            (self.root / directory / f"{number}.txt").write_text(f"{word}\n")
        found = self.ask(word)
        assert len(found) == 100, f"{word}: {len(found)} of 100"
        shutil.rmtree(self.root / directory)
        self.removed(word)
        self.look()


class Committer(ClientActor):
    """git, on the files in one directory: branches are switched, changes committed, amended and stashed."""

    def __init__(self, name: str, root: Path, files: int) -> None:
        """Branches ``a`` (the present one) and ``b`` are made, which differ in all files of the directory."""
        super().__init__(name, root)
        self.files = files
        self.branch = "a"
        self.git("switch", "--quiet", "--create", "b")
        for number in range(files):
            self._file(number).write_text(f"{self.name}_b_{number}_x\n")
        self.git("commit", "--quiet", "--message", "b", "--", self.name)
        self.git("switch", "--quiet", "-")
        self.git("switch", "--quiet", "--create", "a")
        #: The words that were committed last on each branch, and in how many files.
        self.committed = {"a": "", "b": ""}

    def git(self, *arguments: str) -> None:
        run = subprocess.run(["git", "-C", str(self.root), *arguments], capture_output=True, text=True)
        assert run.returncode == 0, f"git {arguments}: {run.stderr}"

    def _file(self, number: int) -> Path:
        return self.root / self.name / f"{number}.txt"

    def count(self, pattern: str) -> int:
        return len(self.ask(pattern))

    def round(self) -> None:
        before, self.branch = self.branch, "b" if self.branch == "a" else "a"
        self.git("switch", "--quiet", self.branch)
        word, half = self.word(), self.files // 2
        last = self.committed[self.branch]
        changed = half if last else 0
        assert self.count(f"^{self.name}_{self.branch}_") == self.files - changed
        assert self.count(f"^{self.name}_{before}_") == 0
        if self.committed[before]:
            assert self.count(self.committed[before]) == 0
        if last:
            assert self.count(last) == half
        for number in range(half):
            self._file(number).write_text(f"{word}\n")
        assert self.count(word) == half
        self.git("stash", "push", "--quiet", "--", self.name)
        assert self.count(word) == 0
        self.git("stash", "pop", "--quiet")
        assert self.count(word) == half
        amend = ("--amend",) if self.rounds % 3 == 2 else ()
        self.git("commit", "--quiet", *amend, "--message", word, "--", self.name)
        assert self.count(word) == half
        self.committed[self.branch] = word


class Agent(ClientActor):
    """Reads far more than it writes: what nobody touches is there, always and everywhere."""

    def __init__(self, name: str, root: Path, always: dict[str, int], unsaved: dict[str, str]) -> None:
        """``always`` are patterns with the number of their files; ``unsaved`` words of buffers that are never
        written, with the files they stand for."""
        super().__init__(name, root)
        self.always = always
        self.unsaved = unsaved

    def round(self) -> None:
        for pattern, count in self.always.items():
            found = len(self.ask(pattern))
            assert found == count, f"{pattern}: {found} of {count}"
        for word, path in self.unsaved.items():
            assert asked(self.client, word, buffers="all") == [(path, "buffer")]
            assert self.ask(word) == []
        word, notes = self.word(), f"{self.name}_notes.md"
        (self.root / notes).write_text(f"{word}\n")
        self.removed(*self.words)
        self.wrote(word, notes)
        self.look(word)
        assert self.client.explain(word)["documents"] >= sum(self.always.values())
        assert self.client.status()["documents"] > 0
        if self.rounds % 5 == 0:
            self._shell(word, notes)

    def _shell(self, word: str, path: str) -> None:
        command = [sys.executable, "-m", "indexgrep", "-l", word]
        run = subprocess.run(command, cwd=self.root, capture_output=True, text=True)
        assert (run.returncode, run.stdout, run.stderr) == (0, f"{path}\n", "")


class Builder(ClientActor):
    """Has the index built anew again and again."""

    def round(self) -> None:
        self.client.index(force=True)
        self._stop_asked.wait(1.0)


class EditorActor(Actor):
    """A Neovim in which somebody types, saves, renames and closes; what is typed counts for it at once."""

    def __init__(self, name: str, root: Path, editor: Editor) -> None:
        super().__init__(name, root)
        self.editor = editor
        editor.lua(ASKING)
        #: A buffer that is never written, and the word in it.
        self.unsaved = (f"word_{name}_never_saved_x", f"{name}_unsaved.txt")
        editor.command(f"edit {self.unsaved[1]}")
        self._type(self.unsaved[0])
        assert self.ask(self.unsaved[0]) == [(self.unsaved[1], "buffer")]
        self.files = [f"{name}_file{number}.txt" for number in range(4)]
        self.saved: dict[str, str] = {}

    def ask(self, pattern: str) -> Found:
        files, last = self.editor.lua("return _G.ask(...)", pattern, {"root": str(self.root)})
        assert last["event"] == "done", last
        assert last["summary"]["complete"]
        assert not last["summary"]["errors"]
        return [(path, source) for path, source in files]

    def _type(self, text: str) -> None:
        self.editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { ... })", text)

    def round(self) -> None:
        word, path = self.word(), self.files[self.rounds % len(self.files)]
        copy = ("auto", "no", "yes")[self.rounds % 3]
        self.editor.lua("vim.o.backupcopy = ...", copy)
        self.editor.command(f"silent edit {path}")
        self._type(word)
        if path in self.saved:
            self.removed(self.saved.pop(path))
        self.wrote(word, path)
        self.look(word, source="buffer")
        self.editor.command("silent write")
        self.look(word)
        self.saved[path] = word
        if self.rounds % 7 == 3:
            (self.root / path).unlink()
            self.editor.command("bwipeout!")
            self.removed(self.saved.pop(path))
            self.look()
        elif self.rounds % 7 == 5:
            self._type("not to be kept")
            self.editor.command("edit!")
            self.look(word)


def main() -> None:
    """One actor in a process of its own, until its standard input ends; what goes wrong is the status."""
    root, seed = Path(sys.argv[1]), int(sys.argv[2])
    writer = Writer("outsider", root, seed)
    writer.start()
    sys.stdin.read()
    writer.stop()
    writer.join()
    print(writer.rounds)
    if writer.fault:
        sys.exit(writer.fault)


if __name__ == "__main__":
    main()
