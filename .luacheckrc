-- Checked by `make lint`: Lua as Neovim runs it.
std = 'luajit'
max_line_length = 110
read_globals = { 'vim' }
-- Options and variables of the editor are set through these.
globals = { 'vim.g', 'vim.b', 'vim.w', 'vim.o', 'vim.bo', 'vim.wo', 'vim.v', 'vim.env' }
-- A method that needs no `self` is still called as one.
self = false
