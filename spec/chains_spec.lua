-- Chains of the CPU (csrc/cpu/chain.c) against their operations one by one, bit by bit: random programs on operands
-- of every kind, in rows around the lengths where tiles, strips and chains begin to be other ones.
local support = require("spec.support")

local script = [[
local lode = require("lode")
local unpack = unpack or table.unpack
local programs = tonumber(os.getenv("LODE_SPEC_PROGRAMS"))

local state = 1
local function random(n) -- 1 to n
  state = (state * 1103515245 + 12345) % 2 ^ 31
  return math.floor(state / 2 ^ 31 * n) + 1
end
local function one_of(list) return list[random(#list)] end

local unary = {
  function(v) return -v end,
  function(v) return v:abs() end,
  function(v) return v:square() end,
  function(v) return v:abs():sqrt() end,
}
local binary = { "add", "subtract", "multiply", "divide", "minimum", "maximum" }
local comparison = { "equal", "less", "less_equal", "greater", "greater_equal", "not_equal" }

-- Dense, one element a row, the same in every row, dense down the columns, strided.
local function operand(dtype, rows, columns, kind)
  local shape = ({ [4] = { rows, 1 }, [5] = { 1, columns }, [6] = { columns }, [7] = { columns, rows },
    [8] = { rows, 2 * columns } })[kind] or { rows, columns }
  local x = lode.rand(shape, { dtype = dtype, seed = random(1e6) })
  x = lode.where(x:less(0.1), 0, x - 0.5):compute()
  return kind == 7 and x.T or kind == 8 and x[{ {}, { 1, -1, 2 } }] or x
end

local function steps_of(leaves, narrow)
  local steps = {}
  for s = 1, random(24) do
    local number = random(7) == 1
    steps[s] = { kind = random(11), which = random(6), left = number or random(2) == 1,
      x = number and random(1000) / 1000 - 0.5 or one_of(leaves), y = one_of(leaves), z = one_of(leaves),
      narrow = one_of(narrow), number = random(2) == 1 and random(1000) / 1000 - 0.5, twice = random(5) == 1 }
  end
  return steps
end

local reductions = {
  function(v) return { v:sum(1) } end,
  function(v) return { v:sum(2) } end,
  function(v) return { v:var(1), v:mean(1) } end,
  function(v, each) return { each(v - each(v:max(2, { keepdims = true }))) } end,
  function(v) return { v:var() } end,
}

-- Several operations before they meet full rows.
local function aside(x, each)
  return each(each(each(each(x * 1.5) + 0.25):abs()):sqrt())
end

-- The results of one program; `each` makes something of what each operation gives.
local function results(first, steps, reduction, each)
  local v = each(first + 0)
  for _, s in ipairs(steps) do
    if s.kind <= 2 then
      v = each(unary[s.which % 4 + 1](v))
    elseif s.kind <= 8 then
      v = each(s.left and v[binary[s.which] ](v, s.x) or s.x[binary[s.which] ](s.x, v))
    elseif s.kind == 9 then
      v = each(v - aside(s.narrow, each))
    else
      v = each(lode.where(each(v[comparison[s.which] ](v, s.x)), s.number or s.y, v))
      if s.twice then v = each(lode.where(each(v[comparison[s.which] ](v, s.x)), s.y, s.z)) end
    end
  end
  local out = reduction and reduction(v, each) or {}
  out[#out + 1] = v
  for i, x in ipairs(out) do out[i] = lode.where(x:equal(x), x, 7) end -- NaNs have no bits
  lode.compute(unpack(out))
  return out
end

local different, compared = {}, 0
for program = 1, programs do
  local dtype, rows = one_of({ "f32", "f64" }), one_of({ 1, 3, 17, 64, 130 })
  local columns = one_of({ 1, 2, 7, 15, 16, 17, 33, 65, 128, 300, 511, 513, 600, 1030 })
  local leaves, narrow = {}, {}
  for i = 1, 5 do leaves[i] = operand(dtype, rows, columns, random(8)) end
  for i = 1, 2 do narrow[i] = operand(dtype, rows, columns, 3 + i) end
  local first = lode.rand({ rows, columns }, { dtype = dtype, seed = program }):compute()
  local steps, reduction = steps_of(leaves, narrow), reductions[random(8)]
  local one = results(first, steps, reduction, function(v) return v end)
  local by_one = results(first, steps, reduction, function(v) return v:compute() end)
  for i, x in ipairs(one) do
    compared = compared + 1
    if x:download() ~= by_one[i]:download() then
      different[#different + 1] = ("%d (%s %d x %d)"):format(program, dtype, rows, columns)
    end
  end
end
print(("%d results, different: %s."):format(compared, table.concat(different, ", ")))
]]

describe("chains", function()
  for threads = 1, 2 do
    it("have the bits of their operations, with threads: " .. threads, function()
      local text, status = support.child(script, "LODE_SPEC_PROGRAMS=800 LODE_NUM_THREADS=" .. threads)
      assert.equal(0, status, text)
      assert.is_truthy(text:find("^%d+ results, different: %.\n$"), text)
    end)
  end

  it("are made for all kinds of rows", function()
    local text, status = support.child(script, "LODE_SPEC_PROGRAMS=200 LODE_TRACE=1")
    assert.equal(0, status, text)
    local made, columns = { long = 0, short = 0, element = 0, periodic = 0 }, nil
    for line in text:gmatch("[^\n]+") do
      columns = tonumber(line:match("a pass over %d+ x (%d+)")) or columns
      if line:find("a chain of %d+ operations") then
        local kind = line:find("one element a row") and "element" or line:find("the same in every row") and "periodic"
          or columns <= 16 and "short" or "long"
        made[kind] = made[kind] + 1
      end
    end
    for kind, count in pairs(made) do assert.is_true(count >= 5, ("%s: %d"):format(kind, count)) end
  end)
end)
