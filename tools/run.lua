-- The whole configuration of the editor that `make run` opens: this repository's plugin, and its Python.
local here = vim.fs.dirname(vim.fs.dirname(vim.fs.abspath(debug.getinfo(1, "S").source:sub(2))))

vim.opt.runtimepath:prepend(here)
vim.g.python3_host_prog = here .. "/.venv/bin/python"
vim.cmd.filetype("plugin indent on")
vim.cmd.syntax("on")
pcall(vim.cmd.helptags, here .. "/doc")
