-- Random numbers: element i is a function of the seed and i alone. The oracle is Philox4x32-10 in plain
-- Lua, checked against the known answers of its authors (Random123's kat_vectors).
local lode = require("lode")
local support = require("spec.support")

local each_device = support.each_device(it, function(why) pending(why) end)
local floor = math.floor

-- ---- Philox in doubles -------------------------------------------------------------

local nibble = {}
for a = 0, 15 do
  nibble[a] = {}
  for b = 0, 15 do
    local x, bit = 0, 1
    for k = 0, 3 do
      if floor(a / 2 ^ k) % 2 ~= floor(b / 2 ^ k) % 2 then x = x + bit end
      bit = 2 * bit
    end
    nibble[a][b] = x
  end
end

local function xor(a, b)
  local x, unit = 0, 1
  for _ = 1, 8 do
    x = x + nibble[a % 16][b % 16] * unit
    a, b, unit = floor(a / 16), floor(b / 16), unit * 16
  end
  return x
end

-- a * b of two numbers of 32 bits: high and low word, no step beyond 2^53.
local function multiply(a, b)
  local low, high = a % 65536, floor(a / 65536)
  local middle = high * b + floor(low * b / 65536) -- < 2^48 + 2^32
  return floor(middle / 65536), middle % 65536 * 65536 + low * b % 65536
end

local function philox(c, k0, k1)
  local w0, w1, w2, w3 = c[1], c[2], c[3], c[4]
  for _ = 1, 10 do
    local high0, low0 = multiply(0xD2511F53, w0)
    local high1, low1 = multiply(0xCD9E8D57, w2)
    w0, w1, w2, w3 = xor(xor(high1, w1), k0), low1, xor(xor(high0, w3), k1), low0
    k0, k1 = (k0 + 0x9E3779B9) % 2 ^ 32, (k1 + 0xBB67AE85) % 2 ^ 32
  end
  return w0, w1, w2, w3
end

-- The four words of an element; seeds between -2^53 and 2^53.
local function words(index, seed)
  return philox({ index % 2 ^ 32, floor(index / 2 ^ 32), 0, 0 }, seed % 2 ^ 32, floor(seed / 2 ^ 32) % 2 ^ 32)
end

local uniform = {
  f32 = function(index, seed) return floor(words(index, seed) / 2 ^ 8) / 2 ^ 24 end,
  f64 = function(index, seed)
    local w0, w1 = words(index, seed)
    return w0 / 2 ^ 32 + floor(w1 / 2 ^ 11) / 2 ^ 53
  end,
}

-- Box and Muller's transform by the C library; how the words are used is core/random.h's contract.
local normal = {
  f32 = function(index, seed)
    local w0, w1 = words(index, seed)
    local u = floor(w0 / 2) / 2 ^ 31 + 2 ^ -32
    return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * w1 / 2 ^ 32)
  end,
  f64 = function(index, seed)
    local w0, w1, w2, w3 = words(index, seed)
    local u = w0 / 2 ^ 32 + floor(w1 / 2 ^ 12) / 2 ^ 52 + 2 ^ -53
    return math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * (w2 / 2 ^ 32 + w3 / 2 ^ 64))
  end,
}

local function hex(bytes)
  return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end))
end

describe("the oracle", function()
  it("gives Philox's known answers", function()
    local function answers(c, k0, k1) return ("%08x %08x %08x %08x"):format(philox(c, k0, k1)) end
    local ones = 0xffffffff
    assert.equal("6627e8d5 e169c58d bc57ac4c 9b00dbd8", answers({ 0, 0, 0, 0 }, 0, 0))
    assert.equal("408f276d 41c83b0e a20bc7c6 6d5451fd", answers({ ones, ones, ones, ones }, ones, ones))
    assert.equal("d16cfe09 94fdcceb 5001e420 24126ea1",
      answers({ 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, 0xa4093822, 0x299f31d0))
  end)
end)

local seeds = { 0, 1, 7, -1, 2 ^ 32, 2 ^ 40 + 12345, -2 ^ 45 - 3 }

describe("rand", function()
  each_device("is Philox of the element's index", function(device)
    for _, dtype in ipairs({ "f32", "f64" }) do
      for _, seed in ipairs(seeds) do
        local x = lode.rand({ 5, 8 }, { dtype = dtype, seed = seed, device = device }):reshape(-1):totable()
        for i = 1, 40 do
          local want = uniform[dtype](i - 1, seed)
          assert(x[i] == want, ("%s, seed %.17g, element %d: %.17g, %.17g expected"):format(dtype, seed, i, x[i], want))
        end
      end
    end
  end)

  each_device("has these bytes", function(device)
    local function bytes(dtype)
      return hex(lode.rand({ 3 }, { dtype = dtype, seed = 1, device = device }):download())
    end
    assert.equal("06e8633f14082c3fcc567d3e", bytes("f32"))
    assert.equal("41a11cce007dec3fb9f87b830281e53f643b47f8d9aacf3f", bytes("f64"))
  end)

  each_device("is in [0, 1), with the moments and the bins of a uniform distribution", function(device)
    local count, bins = 40000, 20
    for _, dtype in ipairs({ "f32", "f64" }) do
      for seed = 1, 3 do
        local x = lode.rand({ count }, { dtype = dtype, seed = seed, device = device })
        local list, n, sum, squares = x:totable(), {}, 0, 0
        for b = 1, bins do n[b] = 0 end
        for _, value in ipairs(list) do
          assert(value >= 0 and value < 1)
          local b = floor(value * bins) + 1
          n[b], sum, squares = n[b] + 1, sum + value, squares + value * value
        end
        local mean = sum / count
        local chi = 0
        for b = 1, bins do chi = chi + (n[b] - count / bins) ^ 2 / (count / bins) end
        assert(math.abs(mean - 1 / 2) < 0.006, "mean " .. mean) -- 4 deviations
        assert(math.abs(squares / count - mean ^ 2 - 1 / 12) < 0.003)
        assert(chi < 43.8, "chi-square " .. chi) -- 19 degrees of freedom, 0.1 %
      end
    end
  end)
end)

describe("randn", function()
  each_device("is Box and Muller's transform of Philox", function(device)
    for _, case in ipairs({ { "f32", 4e-6 }, { "f64", 1e-14 } }) do
      local dtype, bound = case[1], case[2]
      for _, seed in ipairs(seeds) do
        local x = lode.randn({ 60 }, { dtype = dtype, seed = seed, device = device }):totable()
        for i = 1, 60 do
          local want = normal[dtype](i - 1, seed)
          assert(math.abs(x[i] - want) <= bound,
            ("%s, seed %.17g, element %d: %.17g, %.17g expected"):format(dtype, seed, i, x[i], want))
        end
      end
    end
  end)

  each_device("has these bytes", function(device)
    local function bytes(dtype)
      return hex(lode.randn({ 3 }, { dtype = dtype, seed = 1, device = device }):download())
    end
    assert.equal("e4c3c23ea87f203f8e98c8bf", bytes("f32"))
    assert.equal("8e6e74424d7ddabfe87efce47d32ecbff44d308d378fd8bf", bytes("f64"))
  end)

  each_device("has the moments and the bins of a normal distribution", function(device)
    -- tenths of the distribution end here
    local ends = { -1.2815515655, -0.8416212336, -0.5244005127, -0.2533471031, 0, 0.2533471031, 0.5244005127,
      0.8416212336, 1.2815515655, 1 / 0 }
    local count = 40000
    for _, dtype in ipairs({ "f32", "f64" }) do
      for seed = 1, 3 do
        local list = lode.randn({ count }, { dtype = dtype, seed = seed, device = device }):totable()
        local n, moments = {}, { 0, 0, 0, 0 }
        for b = 1, #ends do n[b] = 0 end
        for _, value in ipairs(list) do
          local b = 1
          while value >= ends[b] do b = b + 1 end
          n[b] = n[b] + 1
          for k = 1, 4 do moments[k] = moments[k] + value ^ k / count end
        end
        local chi = 0
        for b = 1, #ends do chi = chi + (n[b] - count / 10) ^ 2 / (count / 10) end
        assert(math.abs(moments[1]) < 0.02, "mean " .. moments[1])
        assert(math.abs(moments[2] - 1) < 0.03, "variance " .. moments[2])
        assert(math.abs(moments[3]) < 0.08, "third moment " .. moments[3])
        assert(math.abs(moments[4] - 3) < 0.25, "fourth moment " .. moments[4])
        assert(chi < 27.9, "chi-square " .. chi) -- 9 degrees of freedom, 0.1 %
      end
    end
  end)
end)

describe("rand and randn", function()
  each_device("give the same bits for the same seed, others for another", function(device)
    for _, name in ipairs({ "rand", "randn" }) do
      for _, dtype in ipairs({ "f32", "f64" }) do
        local function bytes(seed)
          return lode[name]({ 100 }, { dtype = dtype, seed = seed, device = device }):download()
        end
        assert.is_true(bytes(7) == bytes(7))
        assert.is_false(bytes(7) == bytes(8))
        assert.is_false(bytes(7) == bytes(7 + 2 ^ 32))
      end
    end
  end)

  each_device("depend on the index alone, not on the shape", function(device)
    for _, name in ipairs({ "rand", "randn" }) do
      for _, dtype in ipairs({ "f32", "f64" }) do
        local function make(shape) return lode[name](shape, { dtype = dtype, seed = 3, device = device }) end
        local all = make({ 6000 }):download()
        assert.is_true(make({ 10, 20 }):download() == all:sub(1, #all / 30))
        assert.is_true(make({ 2, 30, 100 }):download() == all)
        for _, count in ipairs({ 1, 2, 3, 5, 16, 17, 257, 1025 }) do
          assert.is_true(make({ count }):download() == all:sub(1, #all / 6000 * count), "prefix of " .. count)
        end
        local part = make({ 60, 100 })[{ { 3, 50, 7 }, { 20, 2, -3 } }]
        local same = lode.tensor(all, { shape = { 60, 100 }, dtype = dtype, device = device })
        assert.is_true(part:download() == same[{ { 3, 50, 7 }, { 20, 2, -3 } }]:download())
      end
    end
  end)

  each_device("are made once, however often they are used", function(device)
    local x = lode.rand({ 100 }, { device = device })
    local first, second = (x * 2):download(), (x + x):download()
    assert.is_true(first == second)
    assert.is_true(x:download() == x:download())
  end)

  each_device("without a seed differ from call to call, and repeat after lode.seed", function(device)
    local function three()
      local options = { device = device }
      return { lode.rand({ 4 }, options):download(), lode.rand({ 4 }, options):download(),
        lode.randn({ 4 }, options):download() }
    end
    lode.seed(42)
    local first = three()
    assert.is_false(first[1] == first[2])
    assert.is_false(first[1] == three()[1])
    lode.seed(42)
    assert.same(first, three())
    lode.seed(43)
    assert.is_false(first[1] == three()[1])
  end)
end)
