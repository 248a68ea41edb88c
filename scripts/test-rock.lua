-- `luarocks test`: runs the specs with LuaRocks' own interpreter on the modules that
-- `luarocks make` built (build/rock/<lua>), with LuaRocks' flags and not make's own.
local interpreter = arg[-1] or "lua"
local name = interpreter:match("[^/]+$")
local module = "build/rock/" .. name .. "/lode/core.so"

local file = io.open(module)
if not file then
  io.stderr:write(module, ' is not there: run "luarocks make" first\n')
  os.exit(1)
end
file:close()

local command = ("make -s run-check BUILD=build/rock LUA='%s' SPEC='%s'"):format(interpreter, table.concat(arg, " "))
local ok = os.execute(command)
os.exit((ok == true or ok == 0) and 0 or 1)
