-- Bad input: an error at the script's line, with the function's name and what was wrong, and everything
-- usable afterwards.
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)

local unpack = unpack or table.unpack -- luacheck: ignore

-- Statements that must raise, and what the text must hold after "script:1: lode: ". `x` is f32 [2,3],
-- `n` i32 [2,3], `b` bool [2,3], all on `device`.
local prelude = "local o = { device = device } local x = lode.ones({ 2, 3 }, o) local n, b = x:to('i32'), x:less(2) "

local cases = {
  -- tables of values
  { "lode.tensor({ { 1, 2 }, { 3 } })", "tensor: ", "row 2 has 1 element, row 1 has 2" },
  { "lode.tensor({ { 1 }, { 2, 3 } })", "tensor: ", "row 2 has 2 elements", "row 1 has 1" },
  { "lode.tensor({ { { 1 } }, { { 1, 2 } } })", "tensor: ", "row {2,1} has 2 elements" },
  { "lode.tensor({ { 1 }, 2 })", "tensor: ", "element {2} is a number", "a table is needed" },
  { "lode.tensor({ 1, { 2 } })", "tensor: ", "element {2} is a table", "a number is needed" },
  { "lode.tensor({ 1, 'a' })", "tensor: ", "element {2} is a string", "a number is needed" },
  { "lode.tensor({ '1' })", "tensor: ", "element {1} is a string" },
  { "lode.tensor({ 1, true })", "tensor: ", "element {2} is a boolean" },
  { "lode.tensor({ true, 1 })", "tensor: ", "element {2} is a number", "a boolean is needed" },
  { "lode.tensor({ print })", "tensor: ", "element {1} is a function" },
  { "lode.tensor({ x })", "tensor: ", "element {1} is a tensor" },
  { "lode.tensor({ a = 1 })", "tensor: ", "the key 'a'" },
  { "lode.tensor({ { 1 }, { a = 1 } })", "tensor: ", "the key 'a'" },
  { "lode.tensor({ [5] = 1 })", "tensor: ", "no element 1" },
  { "lode.tensor({ {}, { 1 } })", "tensor: ", "row 2 has 1 element, row 1 has 0" },
  { "lode.tensor({{{{{{{{{1}}}}}}}}})", "tensor: ", "nested more than 8 deep" },
  { "lode.tensor({ 0.5 }, { dtype = 'i32' })", "tensor: ", "0.5 is not exact in i32", "element {1}" },
  { "lode.tensor({ { 1, 2 ^ 31 } }, { dtype = 'i32' })", "2147483648", "i32", "element {1,2}" },
  { "lode.tensor({ 2 ^ 63 }, { dtype = 'i64' })", "tensor: ", "i64" },
  { "lode.tensor({ 0 / 0 }, { dtype = 'i32' })", "tensor: ", "i32" },
  { "lode.tensor({ 2 }, { dtype = 'bool' })", "tensor: ", "2 does not fit in bool" },
  { "local t = {} t[1] = t lode.tensor(t)", "tensor: ", "nested more than 8 deep" },
  -- other values
  { "lode.tensor()", "tensor: ", "argument 1 is missing" },
  { "lode.tensor(nil)", "tensor: ", "argument 1 is nil" },
  { "lode.tensor(print)", "tensor: ", "argument 1 is a function" },
  { "lode.tensor(x)", "tensor: ", "a tensor already" },
  { "lode.tensor(1, { shape = { 2 } })", "tensor: ", "shape is for byte strings" },
  { "lode.tensor(1, 2)", "tensor: ", "argument 2 is a number", "options" },
  { "lode.tensor(1, {}, 3)", "tensor: ", "3 arguments", "at most 2" },
  { "lode.tensor('12345', { shape = { 2 }, dtype = 'f32' })", "tensor: ", "5 bytes", "f32 [2] has 8" },
  { "lode.tensor('1234')", "tensor: ", "shape and dtype" },
  { "lode.tensor('1234', { shape = { 1 } })", "tensor: ", "shape and dtype" },
  { "lode.tensor('', { shape = { -1 }, dtype = 'f32' })", "tensor: ", "dim 1", "-1" },
  { "lode.tensor(1, { dtype = 'f16' })", "tensor: ", "unknown dtype 'f16'", "bool, i32, i64, f32, f64" },
  { "lode.tensor(1, { dtype = 32 })", "tensor: ", "option dtype is a number" },
  { "lode.tensor(1, { device = 'gpu' })", "tensor: ", "unknown device 'gpu'", "cpu" },
  { "lode.tensor(1, { device = 'cuda:17' })", "tensor: ", "cuda:17" },
  { "lode.tensor(1, { device = 1 })", "tensor: ", "option device is a number" },
  { "lode.tensor(1, { dtpye = 'f32' })", "tensor: ", "unknown option 'dtpye'", "dtype, device, shape" },
  { "lode.tensor(1, { 'f32' })", "tensor: ", "options by name" },
  -- shapes
  { "lode.zeros({ 1, 1, 1, 1, 1, 1, 1, 1, 1 })", "zeros: ", "9 dims", "at most 8" },
  { "lode.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)", "zeros: ", "more than 8" },
  { "lode.zeros({ -1 })", "zeros: ", "dim 1", "-1" },
  { "lode.zeros({ 2, -3 })", "zeros: ", "dim 2", "-3" },
  { "lode.zeros({ 2 ^ 40, 2 ^ 40 })", "zeros: ", "64 bits" },
  { "lode.ones({ 2 ^ 51, 2 ^ 10 })", "ones: ", "64 bits" },
  { "lode.rand({ 2 ^ 32, 0, 2 ^ 32 })", "rand: ", "64 bits" },
  { "lode.zeros({ 1.5 })", "zeros: ", "dim 1 is 1.5", "an integer" },
  { "lode.zeros({ '3' })", "zeros: ", "dim 1 is a string" },
  { "lode.zeros({ 1e300 })", "zeros: ", "dim 1" },
  { "lode.zeros({ 0 / 0 })", "zeros: ", "dim 1" },
  { "lode.zeros('3')", "zeros: ", "argument 1 is a string" },
  { "lode.zeros()", "zeros: ", "argument 1" },
  { "lode.zeros({ 2 }, 'f32')", "zeros: ", "argument 2 is a string" },
  { "lode.zeros({ 2 }, { seed = 1 })", "zeros: ", "unknown option 'seed'" },
  { "lode.full({ 2 })", "full: ", "argument 2" },
  { "lode.full({ 2 }, 'a')", "full: ", "argument 2 is a string" },
  { "lode.full({ 2 }, 0.5, { dtype = 'i32' })", "full: ", "0.5", "i32" },
  { "lode.eye()", "eye: ", "argument 1" },
  { "lode.eye(-1)", "eye: ", "-1" },
  { "lode.eye(2 ^ 32)", "eye: ", "64 bits" },
  { "lode.arange()", "arange: ", "argument 1" },
  { "lode.arange(0, 1, 0)", "arange: ", "step is 0" },
  { "lode.arange(1 / 0)", "arange: ", "not finite" },
  { "lode.arange(0, 1e300, 1)", "arange: ", "2^63" },
  { "lode.arange(0, 1, 0.5, { dtype = 'i32' })", "arange: ", "0.5", "i64" },
  { "lode.linspace(0, 1)", "linspace: ", "argument 3" },
  { "lode.linspace(0, 1, -1)", "linspace: ", "-1" },
  { "lode.linspace(0, 1, 2, { dtype = 'i32' })", "linspace: ", "i32", "f32 or f64" },
  { "lode.rand({ 2 }, { dtype = 'i32' })", "rand: ", "i32", "f32 or f64" },
  { "lode.randn({ 2 }, { seed = 0.5 })", "randn: ", "seed", "an integer" },
  { "lode.seed('a')", "seed: ", "argument 1 is a string" },
  -- operations
  { "local _ = x + lode.ones({ 2, 4 }, o)", "add: shapes [2,3] and [2,4] do not broadcast (dim 2: 3 and 4)" },
  { "local _ = lode.ones({ 4 }, o) / x", "divide: shapes [4] and [2,3]" },
  { "local _ = x:maximum(lode.ones({ 3, 3 }, o))", "maximum: ", "[2,3] and [3,3]", "dim 1: 2 and 3" },
  { "local _ = x + 'a'", "add: ", "argument 2 is a string" },
  { "local _ = {} * x", "multiply: ", "argument 1 is a table" },
  { "local _ = x ^ nil", "pow: ", "argument 2 is nil" },
  { "local _ = x:add()", "add: ", "argument 2 is missing" },
  { "local _ = x:add(1, 2)", "add: ", "3 arguments", "at most 2" },
  { "local _ = lode.add(1, 2)", "add: ", "no argument is a tensor" },
  { "local _ = lode.sqrt()", "sqrt: ", "argument 1 is missing" },
  { "local _ = lode.sqrt(4)", "sqrt: ", "tensor" },
  { "local _ = n + 0.5", "add: ", "0.5 is not exact in i32" },
  { "local _ = n * 2 ^ 31", "multiply: ", "2147483648 does not fit in i32" },
  { "local _ = n * (1 / 0)", "multiply: ", "i32" },
  { "local _ = b + b", "add: ", "bool", "convert" },
  { "local _ = -b", "negative: ", "bool" },
  { "local _ = x:logical_and(x)", "logical_and: ", "f32", "bool is needed" },
  { "local _ = x:logical_not()", "logical_not: ", "f32" },
  { "local _ = x:where(x, x)", "where: ", "bool", "f32" },
  { "local _ = lode.where(true, x, x)", "where: ", "argument 1 is a boolean" },
  { "local _ = lode.where(b, x)", "where: ", "argument 3 is missing" },
  { "local _ = x:clip('a', 1)", "clip: ", "argument 2 is a string" },
  { "local _ = lode.clip(1, 0, 2)", "clip: ", "argument 1 is a number" },
  { "local _ = x < x", "Lua's comparisons give one boolean" },
  { "local _ = x <= x", "Lua's comparisons give one boolean" },
  -- reductions
  { "local _ = x:sum(3)", "sum: dim 3 of a tensor with 2 dims" },
  { "local _ = x:sum(0)", "sum: dim 0" },
  { "local _ = x:mean(-3)", "mean: dim -3" },
  { "local _ = x:sum({ 1, 1 })", "sum: dim 1 is given twice" },
  { "local _ = x:sum({ 1, -2 })", "sum: dim 1 is given twice" },
  { "local _ = x:sum('a')", "sum: ", "argument 2 is a string" },
  { "local _ = x:sum(1.5)", "sum: ", "1.5", "an integer" },
  { "local _ = x:sum(1, { keepdim = true })", "sum: ", "unknown option 'keepdim'", "keepdims" },
  { "local _ = x:sum(1, { keepdims = 1 })", "sum: ", "keepdims is a number" },
  { "local _ = x:sum(1, true)", "sum: ", "argument 3 is a boolean" },
  { "local _ = x:all()", "all: ", "f32", "compare first" },
  { "local _ = b:max()", "max: ", "bool", "all or any" },
  { "local _ = lode.zeros({ 0 }, o):min()", "min: ", "no elements", "[0]" },
  { "local _ = lode.sum(5)", "sum: ", "argument 1 is a number" },
  -- conversions and reading
  { "local _ = x:to('float')", "to: 'float' is neither a dtype (bool, i32, i64, f32, f64) nor a device (cpu" },
  { "local _ = x:to('')", "to: '' is neither a dtype" },
  { "local _ = x:to()", "to: ", "argument 2" },
  { "local _ = x:to({ dtype = 'f65' })", "to: ", "unknown dtype 'f65'" },
  { "local _ = x:to({ stream = 1 })", "to: ", "unknown option 'stream'" },
  { "local _ = x:item()", "item: ", "[2,3] has 6 elements" },
  { "local _ = lode.zeros({ 0 }, o):item()", "item: ", "[0] has 0 elements" },
  { "local _ = x:item(1)", "item: ", "2 arguments" },
  { "x.sum(5)", "sum: ", "argument 1 is a number" },
  { "x.sync()", "sync: ", "argument 1 is missing" },
  { "x.download({})", "download: ", "argument 1 is a table" },
  { "lode.compute(x, 5)", "compute: ", "argument 2 is a number" },
  { "lode.compute({ x })", "compute: ", "argument 1 is a table" },
  { "x.release(5)", "release: ", "argument 1 is a number" },
  -- the state
  { "lode.set_default({ dtype = 'i32' })", "set_default: ", "i32", "f32 or f64" },
  { "lode.set_default({ device = 'gpu' })", "set_default: ", "'gpu'" },
  { "lode.set_default()", "set_default: ", "argument 1" },
  { "lode.set_default({ stream = 1 })", "set_default: ", "unknown option 'stream'" },
  { "lode.with({ dtyp = 'f64' }, print)", "with: ", "unknown option 'dtyp'" },
  { "lode.with({ dtype = 'f6' }, print)", "unknown dtype 'f6'" },
  { "lode.with('f64', print)", "with: ", "argument 1 is a string" },
  { "lode.with({})", "with: ", "argument 2 is a nil", "a function" },
  { "lode.with({ stream = 5 }, print)", "with: ", "stream" },
  { "lode.scope()", "scope: ", "argument 1 is a nil" },
  { "lode.set_threads(-1)", "set_threads: ", "-1" },
  { "lode.set_threads('two')", "set_threads: ", "argument 1 is a string" },
  { "lode.set_budget(-1)", "set_budget: ", "negative" },
  { "lode.stats('gpu')", "stats: ", "'gpu'" },
  { "lode.sync('gpu')", "sync: ", "'gpu'" },
  { "lode.sync(x)", "sync: ", "argument 1 is a tensor", "a device's name" },
  { "lode.stream('gpu')", "stream: ", "'gpu'" },
  { "lode.event({ device = 'gpu' })", "event: ", "'gpu'" },
  { "lode.event():ready()", "ready: ", "not been recorded" },
  { "lode.event():wait()", "wait: ", "not been recorded" },
  { "lode.event():record(x)", "record: ", "argument 2 is a tensor", "a stream" },
  { "lode.event(o):elapsed(lode.event(o))", "elapsed: ", "not been recorded" },
  { "local _ = x.cat", "index: a tensor has no field 'cat' (concat?)" },
  { "local _ = x:eq(1)", "index: a tensor has no field 'eq' (equal?)" },
  { "local _ = x.argmax", "index: a tensor has no field 'argmax' (not yet in lode)" },
  { "local _ = lode.cat({ x, x })", "there is no function 'cat' (concat?)" },
  { "local _ = lode.sort(x)", "there is no function 'sort' (not yet in lode)" },
  { "x.colour = 3", "a tensor has no fields to set (here 'colour')" },
  { "x[1] = 3", "the elements of a tensor are not assigned to" },
  { "local _ = lode.zeros({ 2 }, o).T", "T: shape [2] has 1 dim, 2 are needed" },
  { "local _ = lode.zeros({ 2 }, o):sum(2)", "sum: dim 2 of a tensor with 1 dim" },
  { "local _ = lode.concat(x, x)", "concat: argument 1 is a tensor, a list of tensors is needed: concat({a, b}, dim)" },
  { "local _ = lode.stack(x, x, 1)", "stack: argument 1 is a tensor, a list of tensors is needed: stack({a, b}, dim)" },
  { "local _ = lode.stream().depth", "a stream has no field 'depth'" },
  { "local _ = lode.event()[1]", "an event has no elements" },
  { "local _ = lode.eye(2, o):lu().shape", "a factor has no field 'shape'" },
}

describe("bad input", function()
  each_device("raises at the script's line, and says what was wrong", function(device)
    local failures = {}
    for _, case in ipairs(cases) do
      local ok, text = pcall(support.raises, device, 1, prelude .. case[1], unpack(case, 2))
      if not ok then failures[#failures + 1] = text end
    end
    assert(#failures == 0, table.concat(failures, "\n"))
    support.holds(lode.ones({ 2 }, { device = device }) + 1, "f32", { 2 }, { 2, 2 })
    assert.equal("f32", lode.default_dtype)
  end)

  it("knows names of other libraries without hiding that a name is absent", function()
    assert.is_nil(rawget(lode, "cat"))
    assert.is_nil(lode.cuda)
    assert.is_nil(lode[1])
    for name in pairs(lode) do assert.is_not_equal("cat", name) end
  end)

  each_device("a length operator beyond dims", function(device)
    support.raises(device, 1, "local _ = #lode.tensor(1, { device = device })", "no length")
  end)

  each_device("met thousands of times costs nothing", function(device)
    local x, y = lode.ones({ 3 }, { device = device }), lode.ones({ 4 }, { device = device })
    local function fail() return x + y end
    for _ = 1, 100 do pcall(fail) end
    local before = lode.stats(device)
    for _ = 1, 2000 do pcall(fail) end
    local after = lode.stats(device)
    assert.equal(before.allocations, after.allocations)
    assert.is_true(after.used <= before.used)
  end)

  it("keeps unknown options of every function from passing silently", function()
    for _, call in ipairs({
      "lode.zeros({1}, {q=1})", "lode.ones({1}, {q=1})", "lode.full({1}, 1, {q=1})", "lode.eye(1, {q=1})",
      "lode.arange(1, {q=1})", "lode.linspace(0, 1, 2, {q=1})", "lode.rand({1}, {q=1})", "lode.randn({1}, {q=1})",
      "lode.tensor(1, {q=1})", "lode.ones({1}):sum(1, {q=1})", "lode.ones({1}):mean({q=1})",
      "lode.ones({1}):to({q=1})", "lode.eye(1):solve(lode.ones({1}), {q=1})", "lode.event({q=1})",
      "lode.eye(1):solve_ex(lode.ones({1}), {q=1})", "lode.with({q=1}, print)",
    }) do
      support.raises("cpu", 1, call, "unknown option 'q' (there are ")
    end
  end)
end)

-- ---- where an error points -----------------------------------------------------------------------

local is_luajit = type(jit) == "table"
local is_puc51 = _VERSION == "Lua 5.1" and not is_luajit -- its coroutines take Lua functions alone

-- What, the line that must be named, and the script: its first line defines x and y, which do not go together.
local places = {
  { "a function", 2, "local z = lode.add(x, y)\nreturn z" },
  { "a method", 2, "local z = x:add(y)\nreturn z" },
  { "an operator", 2, "local z = x + y\nreturn z" },
  { "unary minus", 2, "local z = -x:less(2)\nreturn z" },
  { "an index", 2, "local z = x[5]\nreturn z" },
  { "a property", 2, "local z = x.T\nreturn z" },
  { "an assignment", 2, "x[1] = 2\nreturn x" },
  -- LuaJIT has no frame for f any more; the others call C functions from it
  { "a tail call", is_luajit and 3 or 2, "local function f(...) return lode.add(...) end\nlocal z = f(x)\nreturn z" },
  { "a tail call of a Lua function", 3, "local function g(a)\nlocal z = a + y return z end\n" ..
    "local function f(...) return g(...) end\nlocal z = f(x)\nreturn z" },
  { "an operator in a tail position", 2, "local function f(a, b) return a + b end\nreturn f(x, y)" },
  { "an inner function", 3, "local function f(a)\nlocal z = a + y\nreturn z\nend\nlocal z = f(x)\nreturn z" },
  { "pcall", 2, "local _, e = pcall(lode.add, x, y)\nerror(e, 0)" },
  { "a coroutine", 3, "local co = coroutine.create(function()\nlocal z = x + y\nreturn z\nend)\n" ..
    "local _, e = coroutine.resume(co)\nerror(e, 0)" },
  not is_puc51 and { "a coroutine of a C function", 3, "local co = coroutine.create(lode.add)\n" ..
    "local _, e = coroutine.resume(co, x, y)\nerror(e, 0)" } or
    { "a coroutine, again", 3, "local co = coroutine.create(function(...)\nlode.add(...) end)\n" ..
      "local _, e = coroutine.resume(co, x, y)\nerror(e, 0)" },
  { "lode.with", 3, "lode.with({ dtype = 'f64' }, function()\nlocal z = x + y\nreturn z\nend)" },
  { "lode.with's own arguments", 2, "lode.with(x)" },
  { "lode.scope", 3, "lode.scope(function(keep)\nkeep(x + y)\nend)" },
  { "lode.scope of a C function", 2, "lode.scope(function(_, ...) return lode.add(...) end, x, y)" },
  { "a stream's run", 3, "lode.stream():run(function()\nlocal z = x + y\nreturn z\nend)" },
  { "string.gsub's callback", 3, "local text = ('a'):gsub('a', function()\nlocal z = x + y\nreturn z\nend)\n" ..
    "return text" },
  { "table.sort's comparison", 3, "table.sort({ 1, 2 }, function()\nlocal z = x + y\nreturn z\nend)" },
  { "a metamethod of the script's", 3, "local t = setmetatable({}, { __index = function()\nlocal z = x + y\n" ..
    "return z\nend })\nreturn t.field" },
}

describe("an error", function()
  for _, place in ipairs(places) do
    it("points to the script's line from " .. place[1], function()
      support.raises("cpu", place[2], "local x, y = lode.ones({ 2 }), lode.ones({ 3 })\n" .. place[3])
    end)
  end

  it("points to the script's line from coroutine.wrap, which puts its own before it", function()
    for _, body in ipairs({ "function()\nlocal z = x + y\nreturn z end", not is_puc51 and "lode.add" or nil }) do
      local chunk = support.script("local x, y = lode.ones({ 2 }), lode.ones({ 3 })\n" ..
        "local co = coroutine.wrap(" .. body .. ")\nco(x, y)")
      support.fails(function() chunk(lode) end, "script:3: lode: add: ")
    end
  end)

  it("is a string, also through error handlers, and comes through lode.with as it is", function()
    local object = {}
    local ok, e = pcall(lode.with, { dtype = "f64" }, function() error(object, 0) end)
    assert.is_false(ok)
    assert.equal(object, e)
    ok, e = pcall(lode.scope, function() error("mine", 0) end)
    assert.is_false(ok)
    assert.equal("mine", e)
    local seen
    xpcall(function() return lode.ones({ 2 }) + lode.ones({ 3 }) end, function(text) seen = text end)
    assert.is_truthy(seen:find("^spec/errors_spec.lua:%d+: lode: add: "))
  end)

  it("of mixed devices names both", function()
    local other
    for _, device in ipairs(lode.devices()) do
      if device.available and device.name ~= "cpu" then other = device.name end
    end
    if not other then return pending("there is one device") end
    local x, y = lode.ones({ 2 }), lode.ones({ 2 }, { device = other })
    support.fails(function() return x + y end, "add: inputs on cpu and " .. other, ':to("cpu")')
    support.fails(function() return lode.concat({ y, x }) end, "concat: inputs on " .. other .. " and cpu")
    support.fails(function() return x:matmul(y) end, "matmul: ", "cpu", other)
    support.fails(function() return lode.eye(2):solve(y) end, "solve: ", "cpu", other)
  end)

  it("of an absent device says why it is absent", function()
    for _, device in ipairs(lode.devices()) do
      if not device.available then
        support.fails(function() return lode.zeros({ 1 }, { device = device.name }) end, "zeros: ", device.name,
          device.reason)
      end
    end
  end)
end)
