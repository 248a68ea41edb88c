-- The manual says something of every public name, and its examples run; so do the README's.
local lode = require("lode")
local support = require("spec.support")

local function read(name)
  local file = assert(io.open(name))
  local text = file:read("*a")
  file:close()
  return text
end

local manual = read("docs/manual.md")

-- ---- examples -----------------------------------------------------------------------------------

-- The ```lua blocks of a page: { line, text }.
local function blocks_of(page)
  local blocks, block, number = {}, nil, 0
  for line in (page .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    if line == "```lua" then
      block = { line = number + 1 }
    elseif line == "```" and block then
      block.text = table.concat(block, "\n")
      blocks[#blocks + 1], block = block, nil
    elseif block then
      block[#block + 1] = line
    end
  end
  assert(block == nil, "a block has no end")
  return blocks
end

-- A chunk whose errors name the page and its line, and whose globals are its own.
local function compile(name, block)
  local text = block.text
  if not text:find("require", 1, true) then text = 'local lode = require "lode" ' .. text end
  text = ("\n"):rep(block.line - 1) .. text
  local globals = setmetatable({ print = function() end }, { __index = _G })
  if not setfenv then return assert(load(text, "=" .. name, "t", globals)) end -- luacheck: ignore
  return setfenv(assert(loadstring(text, "=" .. name)), globals) -- luacheck: ignore
end

describe("the examples", function()
  local defaults = lode.get_default()
  after_each(function()
    lode.set_default(defaults)
    lode.set_budget(0)
  end)

  for _, name in ipairs({ "docs/manual.md", "README.md" }) do
    local blocks = blocks_of(read(name))
    for _, block in ipairs(blocks) do
      it(("of %s run: line %d"):format(name, block.line), function() compile(name, block)() end)
    end
    it("of " .. name .. " are there", function() assert.is_true(#blocks > 0) end)
  end
end)

-- ---- names --------------------------------------------------------------------------------------

-- What a method's entry begins with; and which entry stands for a name of a place.
local places = { MODULE = "lode", TENSOR = "x", FACTOR = "F", STREAM = "s", EVENT = "e", GRAPH = "g" }
local types = { tensor = "TENSOR", factor = "FACTOR", stream = "STREAM", event = "EVENT", graph = "GRAPH" }
local everywhere = { MODULE = true, TENSOR = true }

-- Every registered name: a list of { name, of = set of places, property }.
local function registered()
  local names = {}
  local in_module = {}
  local function add(name, of, property)
    names[#names + 1] = { name = name, of = of, property = property }
    if of.MODULE then in_module[name] = true end
  end
  for _, file in ipairs({ "creation", "elementwise", "shape", "reduce", "transfer", "linalg", "device", "handle",
    "state", "tensor", "factor", "stream", "event", "graph" }) do
    local text = read("csrc/binding/" .. file .. ".c")
    for flags, name in text:gmatch('{([%u_| ]+), "([%w_]+)",') do
      local of = flags:find("EVERYWHERE", 1, true) and { MODULE = true, TENSOR = true } or {}
      for place in flags:gmatch("LODE_IN_(%u+)") do of[place] = true end
      if not of.PRIVATE then add(name, of) end
    end
    for of, entries in text:gmatch("lode_(%w+)_properties%[%] = (%b{})") do
      for name in entries:gmatch('{0, "([%w_]+)"') do add(name, { [types[of]] = true }, true) end
    end
  end
  for _, op in ipairs(support.ops) do
    if op.kind ~= "COUNTER" then add(op.name, everywhere) end
  end
  for name in read("lua/lode/init.lua"):gmatch("core%.stream_methods%.([%w_]+)") do add(name, { STREAM = true }) end
  for name, value in pairs(lode) do
    if type(value) == "function" and not in_module[name] then add(name, { MODULE = true }) end
  end
  return names
end

-- Code between backticks in entries: lines that begin with "- " or "|".
local function entries()
  local code = {}
  for line in manual:gmatch("[^\n]+") do
    if line:find("^[-|]") or line:find("^  ") or line:find("^Of ") then
      for span in line:gmatch("`([^`]+)`") do code[#code + 1] = span end
    end
  end
  return "\n" .. table.concat(code, "\n") .. "\n"
end

-- Is there an entry that begins with "x:sum(" or the like? Matrices are written A.
local function described(code, entry, place)
  local receiver = places[place]
  local function begins(text) return code:find("\n" .. text .. (entry.property and "\n" or ""), 1, false) ~= nil end
  if place == "MODULE" then return begins("lode%." .. entry.name .. "[({]") end
  local mark = entry.property and "%." or ":"
  local stop = entry.property and "" or "[({]"
  if begins(receiver .. mark .. entry.name .. stop) then return true end
  return place == "TENSOR" and begins("A" .. mark .. entry.name .. stop)
end

describe("the manual", function()
  it("has an entry for every function, method and property", function()
    local code, missing, count = entries(), {}, 0
    for _, entry in ipairs(registered()) do
      count = count + 1
      -- a function that is a method too has one entry, as either
      local both = entry.of.MODULE and entry.of.TENSOR
      for place in pairs(entry.of) do
        local found = described(code, entry, place)
        if both and not found and everywhere[place] then
          found = described(code, entry, place == "MODULE" and "TENSOR" or "MODULE")
        end
        if not found then missing[#missing + 1] = places[place] .. " " .. entry.name end
      end
    end
    assert.is_true(count > 90, "the registration tables were not found: " .. count)
    assert.equal("", table.concat(missing, ", "))
  end)

  it("names every dtype, option and counter", function()
    for _, name in ipairs({ "bool", "i32", "i64", "f32", "f64", "dtype", "device", "seed", "shape", "keepdims",
      "assume", "stream", "default_device", "default_dtype", "jit" }) do
      assert.is_truthy(manual:find("%f[%w_]" .. name .. "%f[^%w_]"), name)
    end
    for name in pairs(lode.stats()) do assert.is_truthy(manual:find("`" .. name .. "`", 1, true), name) end
  end)
end)
