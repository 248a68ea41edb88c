-- `luarocks test`: runs the specs on the modules that `luarocks make` built last for this
-- Lua version, with LuaRocks' flags and not make's own. The interpreter is the one they
-- were built for (build/rock/last-<version>), which need not be the one LuaRocks runs this
-- with: Lua 5.1's modules may be LuaJIT's.
local record = "build/rock/last-" .. _VERSION:match("%d+%.%d+")

local file = io.open(record)
if not file then
  io.stderr:write(record, ' is not there: run "luarocks make" first\n')
  os.exit(1)
end
local interpreter = file:read("*l")
file:close()

local command = ("make -s run-check BUILD=build/rock LUA='%s' SPEC='%s'"):format(interpreter, table.concat(arg, " "))
local ok = os.execute(command)
os.exit((ok == true or ok == 0) and 0 or 1)
