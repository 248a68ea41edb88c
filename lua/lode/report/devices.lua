-- What the machine has, as lines of text: lode.devices() for people.

local devices = {}

-- "threads 2, memory 8.2 GB", in the device's own order.
local function properties(entry)
  local texts = {}
  for i, property in ipairs(entry.properties) do
    texts[i] = property[1] .. " " .. property[2]
  end
  return table.concat(texts, ", ")
end

-- One line for each entry of `list` (lode.devices()).
function devices.lines(list)
  local widest = 0
  for _, entry in ipairs(list) do
    widest = math.max(widest, #entry.name)
  end
  local lines = {}
  for i, entry in ipairs(list) do
    local text = entry.available and properties(entry) or "not available: " .. tostring(entry.reason)
    lines[i] = entry.name .. (" "):rep(widest - #entry.name) .. "  " .. text
  end
  return lines
end

-- Prints the lines and returns the names of the devices to measure: those that are
-- there, or `only` alone; nil and what is wrong where that is not there.
function devices.print(list, only)
  print(table.concat(devices.lines(list), "\n"))
  local names = {}
  for _, entry in ipairs(list) do
    if entry.available then names[#names + 1] = entry.name end
    local kind = entry.name:match("^%a+")
    if only == entry.name or only == kind then
      if entry.available then return { only } end
      return nil, ("there is no device '%s': %s"):format(only, entry.reason)
    end
  end
  if only then return nil, ("unknown device '%s' (there are: %s)"):format(only, table.concat(names, ", ")) end
  return names
end

return devices
