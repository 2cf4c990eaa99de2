-- Commands and <Plug> mappings. Nothing else is loaded before one of them is used.

if vim.g.loaded_indexgrep then
  return
end
vim.g.loaded_indexgrep = true

if vim.fn.has("nvim-0.11") == 0 then
  local version = vim.version and tostring(vim.version()) or "this Neovim"
  vim.notify_once(
    ("indexgrep needs Neovim 0.11 or later, and this is %s. Update Neovim, or remove the plugin."):format(
      version
    ),
    vim.log.levels.ERROR
  )
  return
end

vim.api.nvim_create_user_command("IndexGrep", function(command)
  require("indexgrep.command").run(command)
end, {
  nargs = "*",
  range = true,
  complete = function(...)
    return require("indexgrep.flags").complete(...)
  end,
  desc = "Search the repository with a regex",
})

vim.api.nvim_create_user_command("IndexGrepStop", function()
  require("indexgrep.command").stop()
end, { desc = "Stop the running search; what was found stays" })

vim.api.nvim_create_user_command("IndexGrepStatus", function()
  require("indexgrep.command").status()
end, { desc = "Show the state of the server and the index" })

vim.api.nvim_create_user_command("IndexGrepServer", function(command)
  require("indexgrep.command").server(command.fargs[1])
end, {
  nargs = 1,
  complete = function(...)
    return require("indexgrep.command").complete_server(...)
  end,
  desc = "Start, stop or look at the server of this repository",
})

vim.keymap.set(
  "n",
  "<Plug>(indexgrep-cword)",
  "<Cmd>IndexGrep<CR>",
  { desc = "Search for the word under the cursor" }
)
-- With `:` and not <Cmd>, so that Visual mode ends and the marks '< and '> stand where the selection was.
vim.keymap.set(
  "x",
  "<Plug>(indexgrep-visual)",
  ":IndexGrep<CR>",
  { silent = true, desc = "Search for the selection" }
)
