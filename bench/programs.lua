-- The programs that are compared, as a user of lode writes them from docs/manual.md: functions of one or two tensors
-- that return one or two. bench/programs.py has the same ones as each peer writes them.
local lode = require("lode")

local programs = {}

-- The trajectory cost: sums of squared second differences, one step being `ndof` columns.
local ndof, dim = 2, 20

local function lag(v)
  return lode.concat({ v[{ {}, { 1, ndof } }], v[{ {}, { 1, dim - ndof } }] }, 2)
end

function programs.smoothness(x)
  local x1 = lag(x)
  local k = x + lag(x1) - 2 * x1
  return (k ^ 2):sum(2)
end

function programs.chain(x) return ((((x * 1.5 + 0.25) * x - 0.5) * x + 1):abs()):sqrt() end

function programs.axpy(x, y) return 2.5 * x + y end

function programs.huber(x, y)
  local delta = 0.5
  local r = (x - y):abs()
  return lode.where(r:less_equal(delta), 0.5 * r:square(), delta * (r - 0.5 * delta)):mean()
end

function programs.softmax(x)
  local e = (x - x:max(2, { keepdims = true })):exp()
  return e / e:sum(2, { keepdims = true })
end

function programs.normalization(x)
  local d = x - x:mean(2, { keepdims = true })
  return d / (d:square():mean(2, { keepdims = true }) + 1e-5):sqrt()
end

local function moments(x, dims) return x:mean(dims), x:var(dims) end

programs["moments.rows"] = function(x) return moments(x, 2) end
programs["moments.columns"] = function(x) return moments(x, 1) end
programs["moments.all"] = function(x) return moments(x, { 1, 2 }) end

-- Squared distances of all pairs.
function programs.pairwise(x, y) return (x:expand_dims(2) - y:expand_dims(1)):square():sum(3) end

local function columns(v) return v[{ {}, { 1, 1 } }], v[{ {}, { 2, 2 } }], v[{ {}, { 3, 3 } }] end

local function cross(a, b)
  local a1, a2, a3 = columns(a)
  local b1, b2, b3 = columns(b)
  return lode.concat({ a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1 }, 2)
end

-- Vectors rotated by unit quaternions, the real part first.
function programs.rotation(q, v)
  local w, u = q[{ {}, { 1, 1 } }], q[{ {}, { 2, 4 } }]
  local t = 2 * cross(u, v)
  return v + w * t + cross(u, t)
end

function programs.laplacian(x)
  local inner, before, after = { 2, -2 }, { 1, -3 }, { 3, -1 }
  return x[{ before, inner }] + x[{ after, inner }] + x[{ inner, before }] + x[{ inner, after }]
    - 4 * x[{ inner, inner }]
end

function programs.masked(x, y) return lode.where(y:greater(0.5), x, 0):sum() end

function programs.outer(x) return x:sum(1) end

function programs.logsumexp(x)
  local high = x:max(2, { keepdims = true })
  return (x - high):exp():sum(2, { keepdims = true }):log() + high
end

programs["solve.general"] = function(a, b) return a:solve(b, { assume = "general" }) end
programs["solve.spd"] = function(a, b) return a:solve(b, { assume = "spd" }) end

return programs
