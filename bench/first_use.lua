-- What first calls on a GPU cost, in milliseconds: run it twice with a fresh XDG_CACHE_HOME, and the second run
-- reads from disk what the first one compiled.
--
--   XDG_CACHE_HOME=$(mktemp -d) sh -c 'lua bench/first_use.lua; lua bench/first_use.lua'

local load = os.clock()
local lode = require("lode")
print(("%-44s %9.3f ms"):format('require "lode"', (os.clock() - load) * 1e3))

local function timed(what, call)
  local before = lode.stats("cpu") and lode.clock()
  local result = call()
  print(("%-44s %9.3f ms"):format(what, (lode.clock() - before) * 1e3))
  return result
end

local entry = timed("the first question for devices", function()
  for _, device in ipairs(lode.devices()) do
    if device.name:find("^cuda") then return device end
  end
end)
if not entry or not entry.available then
  print("no GPU: " .. (entry and entry.reason or "?"))
  return
end
local x = timed("the first tensor (makes the context)", function()
  return lode.tensor({ 1, 2, 3 }, { device = "cuda" }):sync()
end)

local function program(what, call)
  local before = lode.stats("cuda")
  timed(what, function() return call():sync() end)
  local after = lode.stats("cuda")
  print(("%-44s %9s"):format("", after.compiles > before.compiles and "compiled" or after.loads > before.loads
    and "from disk" or "in memory"))
end
program("the first program (loads NVRTC)", function() return x + 1 end)
program("another program", function() return x * x - 3 end)
program("a row reduction", function() return (x * 2):sum() end)
program("the first program again", function() return x + 2 end)
timed("the first product (loads cuBLAS, cuSOLVER)", function()
  local a = lode.rand({ 100, 100 }, { device = "cuda" })
  return a:matmul(a):sync()
end)
timed("the first solve", function()
  return lode.eye(100, { device = "cuda" }):solve(lode.ones({ 100 }, { device = "cuda" })):sync()
end)
