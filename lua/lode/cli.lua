-- The command `lode`: a small window on what is installed. Returns an exit status;
-- bin/lode exits with it.

local commands = {}

local USAGE = [[
usage: lode COMMAND

  devices   the devices of this machine, and why one is absent
  version   the version of lode and of Lua
  help      this text]]

-- Each device computes and solves something first: then it can say which libraries it found.
function commands.devices()
  local report, lode = require("lode.report.devices"), require("lode")
  for _, entry in ipairs(lode.devices()) do
    if entry.available then
      pcall(function()
        local one = lode.ones({ 1, 1 }, { device = entry.name })
        one:solve(one * 2):sync()
      end)
    end
  end
  print(table.concat(report.lines(lode.devices()), "\n"))
  return 0
end

function commands.version()
  local runtime = rawget(_G, "jit") and rawget(_G, "jit").version or _VERSION
  print(("%s, %s"):format(require("lode")._VERSION, runtime))
  return 0
end

function commands.help()
  print(USAGE)
  return 0
end

return function(arguments)
  local name = arguments[1]
  local command = commands[name and name:gsub("^%-%-", "") or "help"]
  if not command or #arguments > 1 then
    io.stderr:write(USAGE, "\n")
    return 2
  end
  local ok, result = pcall(command)
  if ok then return result end
  io.stderr:write(tostring(result), "\n")
  return 1
end
