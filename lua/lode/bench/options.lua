-- Command-line options of the recipes: --name=value, checked against a table of
-- defaults whose types they take.

local options = {}

local function usage(defaults, order)
  local texts = {}
  for i, name in ipairs(order) do
    texts[i] = ("--%s=%s"):format(name, tostring(defaults[name]))
  end
  return "options and their defaults: " .. table.concat(texts, " ")
end

local function value_of(name, text, default)
  if type(default) ~= "number" then return text end
  local number = tonumber(text)
  if not number or number < 1 or number ~= math.floor(number) then
    return nil, ("--%s=%s: a whole number from 1 is needed"):format(name, text)
  end
  return math.floor(number)
end

-- options.parse(arguments, { { "samples", 1000 }, ... }) -> { samples = 1000, ... },
-- or nil and what is wrong. A default of false is an option that may stay away; its
-- third entry is then an example of its type.
function options.parse(arguments, list)
  local values, kinds, defaults, order = {}, {}, {}, {}
  for i, entry in ipairs(list) do
    local name, default, example = entry[1], entry[2], entry[3]
    order[i], values[name] = name, default
    kinds[name] = default or example
    defaults[name] = default or "…"
  end
  for _, argument in ipairs(arguments) do
    local name, text = argument:match("^%-%-([%w_]+)=(.*)$")
    if not name or kinds[name] == nil then
      return nil, ("%s: unknown option\n%s"):format(argument, usage(defaults, order))
    end
    local value, problem = value_of(name, text, kinds[name])
    if value == nil then return nil, problem end
    values[name] = value
  end
  return values
end

return options
