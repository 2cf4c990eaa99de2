// stylua as a command, from its npm package, which has only the library:
//   node tools/stylua.mjs [--check] FILE_OR_FOLDER...
// Reads stylua.toml in the working directory. Exits 1 when a file is not formatted (--check) or does not parse.
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as stylua from "@johnnymorganz/stylua";

// The keys of stylua.toml that name a choice, and the library's enumeration of the choices.
const CHOICES = {
  call_parentheses: stylua.CallParenType,
  collapse_simple_statement: stylua.CollapseSimpleStatement,
  indent_type: stylua.IndentType,
  line_endings: stylua.LineEndings,
  quote_style: stylua.QuoteStyle,
  space_after_function_names: stylua.SpaceAfterFunctionNames,
  syntax: stylua.LuaVersion,
};
const NUMBERS = ["column_width", "indent_width"];

function fail(message) {
  console.error(`stylua: ${message}`);
  process.exit(1);
}

/** The configuration that stylua.toml describes. Flat `key = value` lines only; any other line is an error. */
function readConfig(path) {
  const config = stylua.Config.new();
  let text;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return config;
  }
  for (const line of text.split("\n").map((raw) => raw.replace(/#.*/, "").trim()).filter(Boolean)) {
    const [, key, word, number] = /^(\w+)\s*=\s*(?:"(\w+)"|(\d+))$/.exec(line) ?? fail(`${path}: cannot read: ${line}`);
    if (key in CHOICES && CHOICES[key][word] !== undefined) {
      config[key] = CHOICES[key][word];
    } else if (NUMBERS.includes(key) && number !== undefined) {
      config[key] = Number(number);
    } else {
      fail(`${path}: unknown setting: ${line}`);
    }
  }
  return config;
}

/** Every Lua file in `path`, sorted. */
function luaFiles(path) {
  if (!statSync(path).isDirectory()) {
    return [path];
  }
  return readdirSync(path, { recursive: true })
    .filter((name) => name.endsWith(".lua"))
    .map((name) => join(path, name))
    .sort();
}

const check = process.argv.includes("--check");
const paths = process.argv.slice(2).filter((argument) => argument !== "--check");
let unformatted = 0;
for (const file of paths.flatMap(luaFiles)) {
  const source = readFileSync(file, "utf8");
  let formatted;
  try {
    // The library takes ownership of a configuration, so each call needs its own.
    formatted = stylua.formatCode(source, readConfig("stylua.toml"), undefined, stylua.OutputVerification.Full);
  } catch (error) {
    console.error(`${file}: ${error}`);
    unformatted += 1;
    continue;
  }
  if (formatted === source) {
    continue;
  }
  if (check) {
    const before = source.split("\n");
    const line = formatted.split("\n").findIndex((text, index) => text !== before[index]);
    console.error(`${file}:${line + 1}: not formatted; run \`make format\``);
    unformatted += 1;
  } else {
    writeFileSync(file, formatted);
  }
}
process.exit(unformatted ? 1 : 0);
