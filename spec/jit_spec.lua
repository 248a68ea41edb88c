-- Programs compiled at run time: when, how often, and what is kept on disk.
local lode = require("lode")
local support = require("spec.support")

local on_cuda = support.cuda_only(it, function(why) pending(why) end)

-- Computes one program (its structure is `seed`'s), and says what that took.
local script = [[
local lode = require("lode")
lode.jit = os.getenv("LODE_SPEC_JIT") or "wait"
local x = lode.tensor({ 1, 2, 3 }, { device = "cuda" })
local y = x
for i = 1, SEED do y = (y + i):sqrt() * i end
local ok, text = pcall(function() return y:download() end)
local stats = lode.stats("cuda")
print(("compiles %d loads %d"):format(stats.compiles, stats.loads))
if not ok then print(text) end
local z = lode.tensor({ 1, 2, 3 }, { device = "cpu" })
for i = 1, SEED do z = (z + i):sqrt() * i end
print(ok and (y:download() == z:download() and "right" or "wrong") or "failed; cpu gives " .. z:sum():item())
]]

local function run(seed, variables) return (support.child(script:gsub("SEED", tostring(seed)), variables, 60)) end

local function with_folder(body)
  local folder = os.tmpname()
  os.remove(folder)
  assert(os.execute("mkdir -m 700 " .. folder))
  local ok, text = pcall(body, folder, "XDG_CACHE_HOME=" .. folder)
  os.execute("rm -rf " .. folder)
  if not ok then error(text, 0) end
end

local function files(folder)
  local list = {}
  local pipe = io.popen("find " .. folder .. " -type f")
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function rewrite(path, change)
  local file = assert(io.open(path, "rb"))
  local bytes = file:read("*a")
  file:close()
  file = assert(io.open(path, "wb"))
  file:write((change(bytes)))
  file:close()
end

describe("lode.jit", function()
  it("is wait, background or off", function()
    local before = lode.jit
    for _, mode in ipairs({ "off", "background", "wait" }) do
      lode.jit = mode
      assert.equal(mode, lode.jit)
    end
    support.fails(function() lode.jit = "later" end, "jit: 'later'", "wait, background, off")
    support.fails(function() lode.jit = 3 end, "jit: ")
    assert.equal("wait", lode.jit)
    lode.jit = before
  end)
end)

describe("a program", function()
  on_cuda("is compiled once for its structure, whatever its extents and scalars", function(device)
    local function compute(n, a)
      local x = lode.full({ n, 3 }, 2, { device = device }):compute()
      local before = lode.stats(device)
      assert.equal((2 * a - 1) / 7, ((x * a - 1) / 7)[n][3]:item())
      local after = lode.stats(device)
      return after.compiles + after.loads - before.compiles - before.loads
    end
    compute(500, 4)
    assert.equal(0, compute(700, 11))
    assert.equal(0, compute(90000, 18))
  end)

  on_cuda("is read from disk by the next process", function()
    with_folder(function(folder, variables)
      local first = run(1, variables)
      assert.is_truthy(first:find("right"), first)
      local compiled = tonumber(first:match("compiles (%d+) loads 0"))
      assert.is_true(compiled and compiled > 0, first)
      assert.equal(compiled, #files(folder))
      assert.equal(("compiles 0 loads %d\nright\n"):format(compiled), run(1, variables))
    end)
  end)

  on_cuda("is compiled again for other options, which its file on disk belongs to", function()
    with_folder(function(_, variables)
      run(1, variables)
      assert.is_truthy(run(1, variables .. " LODE_NVRTC_OPTIONS=-lineinfo"):find("loads 0\nright"))
      assert.is_truthy(run(1, variables .. " LODE_NVRTC_OPTIONS=-lineinfo"):find("compiles 0"))
    end)
  end)

  on_cuda("is compiled again where its file is damaged, and replaces it", function()
    local changes = {
      function(bytes) return bytes:sub(1, math.floor(#bytes / 2)) end,
      function(bytes) return bytes:sub(1, -2) .. string.char((bytes:byte(-1) + 1) % 256) end,
      function(bytes) return "x" .. bytes:sub(2) end,
      function() return "" end,
      function(bytes) return bytes:sub(1, 40) .. "x" .. bytes:sub(42) end, -- in the key
    }
    with_folder(function(folder, variables)
      local first = run(2, variables)
      local list = files(folder)
      for _, change in ipairs(changes) do
        for _, path in ipairs(list) do rewrite(path, change) end
        assert.equal(first, run(2, variables))
      end
      assert.equal(#list, #files(folder))
      assert.is_truthy(run(2, variables):find("compiles 0"))
    end)
  end)

  on_cuda("serves rows of any length of its class, and other scalars", function(device)
    local function compiles(width, scale)
      local x = lode.rand({ 5, width }, { device = device, seed = 1 }):compute()
      local before = lode.stats(device)
      local e = (x * scale - x:max(2, { keepdims = true })):abs()
      local y = (e / e:sum(2, { keepdims = true })):compute()
      local after = lode.stats(device)
      assert(math.abs(y:sum():item() - 5) < 1e-3)
      return after.compiles + after.loads - before.compiles - before.loads
    end
    local classes = { { 33, 40, 48 }, { 49, 64 }, { 113, 120, 128 }, { 897, 1000, 1024 }, { 1025, 1500, 2047, 2048 } }
    for _, class in ipairs(classes) do
      compiles(class[1], 0.5)
      for k = 2, #class do assert.equal(0, compiles(class[k], 1 / class[k])) end
    end
    assert.equal(1, compiles(4000, 0.5)) -- the next class
  end)

  on_cuda("is kept until the folder is too large; then what was unused for longest goes", function()
    with_folder(function(folder, variables)
      assert(os.execute(("mkdir -p -m 700 %s/lode/00"):format(folder)))
      for i = 1, 40 do -- 2 MB of files that are older than the program's
        assert(os.execute(("head -c 50000 /dev/zero >%s/lode/00/%d && touch -d '%d days ago' %s/lode/00/%d")
          :format(folder, i, i, folder, i)))
      end
      local before = #files(folder)
      run(1, variables)
      assert.is_true(#files(folder) > before) -- 256 MB are far
      local count = #files(folder) - before
      for _, path in ipairs(files(folder)) do
        if not path:find("/00/%d+$") then os.remove(path) end
      end
      run(1, variables .. " LODE_CACHE_MB=1")
      local left, kept = {}, 0
      for _, path in ipairs(files(folder)) do
        local days = tonumber(path:match("/00/(%d+)$"))
        if days and days <= 40 then left[#left + 1] = days else kept = kept + 1 end
      end
      table.sort(left)
      assert.equal(count, kept)
      assert.is_true(#left > 5 and #left < 20, #left)
      assert.equal(#left, left[#left]) -- the youngest ones
    end)
  end)

  on_cuda("is compiled where no folder can be used", function()
    with_folder(function(folder, variables)
      assert.is_truthy(run(3, variables .. " LODE_CACHE=off"):find("loads 0\nright"))
      assert.equal(0, #files(folder))
      assert.is_truthy(run(3, "XDG_CACHE_HOME=/proc/none"):find("loads 0\nright"))
      run(3, variables)
      os.execute("chmod 777 " .. folder .. "/lode") -- anybody could have put code there
      assert.is_truthy(run(3, variables):find("loads 0\nright"))
    end)
  end)

  on_cuda("that does not compile is an error that says so, and the CPU goes on", function()
    with_folder(function(_, variables)
      variables = variables .. " LODE_NVRTC_OPTIONS=--no-such-option"
      local text = run(1, variables)
      assert.is_truthy(text:find("lode: compute: cuda:0: NVRTC could not compile", 1, true), text)
      assert.is_truthy(text:find("failed; cpu gives"), text)
      assert.is_nil(text:find("no-such-option", 1, true))
      local traced = run(1, variables .. " LODE_TRACE=1")
      assert.is_truthy(traced:find("no-such-option", 1, true))
      local source = assert(io.open((assert(traced:match("its source is (%S+)"), traced))))
      assert.is_truthy(source:read("*a"):find("lode_program", 1, true))
      source:close()
      assert.is_truthy(run(1, variables .. " LODE_SPEC_JIT=off"):find("right"))
      assert.is_truthy(run(1, variables .. " LODE_SPEC_JIT=background"):find("right"))
    end)
  end)

  on_cuda("is interpreted where NVRTC is absent", function()
    local folder = os.tmpname()
    os.remove(folder)
    local searchpath = package.searchpath -- luacheck: ignore
    local here = searchpath and searchpath("lode.core", package.cpath)
    if not here then return pending("package.searchpath is not there") end
    here = here:match("^(.*)/core%.so$")
    os.execute(("mkdir -p %s/lode && cd %s/lode && ln -s %s/*.so . && rm nvrtc.so"):format(folder, folder, here))
    local text = support.child(("package.cpath = '%s/?.so;' .. package.cpath "):format(folder) ..
      script:gsub("SEED", "2") .. "print(lode.devices()[2].properties.nvrtc)")
    os.execute("rm -rf " .. folder)
    assert.is_truthy(text:find("compiles 0 loads 0\nright"), text)
    assert.is_truthy(text:find("nvrtc part: "), text)
  end)

  on_cuda("may be compiled in the background", function()
    with_folder(function(_, variables)
      assert.is_truthy(run(4, variables .. " LODE_SPEC_JIT=background"):find("right"))
    end)
  end)
end)
