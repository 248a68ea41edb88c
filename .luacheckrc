-- The code runs under LuaJIT and Lua 5.1 to 5.4: only what all of them have.
std = "min"
read_globals = { "jit" } -- where LuaJIT runs
max_line_length = 120
include_files = {
  "lua", "examples", "bench/**/*.lua", "spec", "scripts/*.lua", "bin/lode", "rockspec", ".busted", ".luacheckrc",
}
exclude_files = { "build", "spec/host", "spec/emulator" }

ignore = { "581" } -- "not (x < y)" is written where x may be NaN

files["spec"] = { std = "min+busted" }
files["scripts/busted.lua"] = { globals = { "arg" } }
files["rockspec"] = { std = "rockspec" }
files[".luacheckrc"] = { std = "luacheckrc" }
