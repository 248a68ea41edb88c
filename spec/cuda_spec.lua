-- What is CUDA's alone: what lode.devices() says, launches and waits, the two allocators, failures of the driver,
-- forks. Cases that need a driver that fails on demand, or several GPUs, run on the emulator (make check EMULATE=1).
local lode = require("lode")
local support = require("spec.support")

local on_cuda = support.cuda_only(it, function(why) pending(why) end)
local host = support.host()
local emulated = os.getenv("LODE_EMULATED") == "1"

-- The thread sanitizer is loaded by LD_PRELOAD, which the shell between two interpreters does not survive everywhere.
local alone = os.getenv("TSAN_OPTIONS") ~= nil

local function emulated_it(name, body)
  it(name, function()
    if not emulated then return pending("needs the emulator") end
    if alone then return pending("no other processes under the thread sanitizer") end
    body()
  end)
end

local function in_child(name, body)
  on_cuda(name, function()
    if alone then return pending("no other processes under the thread sanitizer") end
    body()
  end)
end

-- Runs a script that prints, in another process; fails if that died.
local function child(text, variables)
  local written, status = support.child('local lode = require("lode") ' .. text, variables, 60)
  if status ~= 0 then error(("status %s: %s"):format(tostring(status), written), 2) end
  return (written:gsub("%s+$", ""))
end

local function stats(name) return lode.stats("cuda")[name] end

local reasons = [[
  for _, d in ipairs(lode.devices()) do if d.name ~= "cpu" then print(d.name, d.available, d.reason) end end
  print(pcall(lode.ones, { 2 }, { device = "cuda:1" }))
  print(lode.ones({ 3 }):sum():item())
]]

local function says(text, ...)
  for _, piece in ipairs({ ... }) do
    if not text:find(piece, 1, true) then error(("%q does not say %q"):format(text, piece), 2) end
  end
end

describe("a read", function()
  on_cuda("waits for what it reads, not for what was enqueued after it", function(device)
    local x = lode.rand({ 1000 }, { device = device, seed = 1 }):compute():sync()
    local n = support.busy_order(device, 700)
    local a = lode.rand({ n, n }, { device = device, dtype = "f64", seed = 2 }):compute():sync()
    a:matmul(a):compute():sync() -- cuBLAS is there
    local want = x:download()
    local before = stats("waits")
    local late = a:matmul(a):matmul(a):compute()
    assert.is_true(x:download() == want)
    assert.is_false(late:ready())
    assert.is_true(stats("waits") - before <= 1)
    late:sync()
  end)
end)

describe("lode.devices", function()
  on_cuda("says what a GPU is", function()
    local found
    for _, device in ipairs(lode.devices()) do
      if device.name:match("^cuda:%d+$") then found = found or device end
    end
    assert.is_true(found.available)
    local p = found.properties
    assert.is_truthy(p.id:match("^GPU%-%x+%-%x+%-%x+%-%x+%-%x+$"))
    assert.is_truthy(p.memory:match("^%d+%.%d GiB$"))
    assert.is_truthy(p["compute capability"]:match("^%d+%.%d$"))
    assert.is_true(tonumber(p.multiprocessors) > 0)
    assert.is_truthy(p.driver:match("^CUDA %d+%.%d$"))
    assert.is_truthy(p["built with"]:match("^CUDA %d+%.%d$"))
    assert.is_truthy(p["fp32:fp64 ratio"]:match("^%d+:1$"))
    assert.is_truthy(p["memory pools"] == "yes" or p["memory pools"] == "no")
    assert.equal(lode.jit, p.jit)
  end)

  in_child("makes no context", function()
    assert.equal("-1 0 0 0", child([[
      lode.devices() lode.trim("cuda") lode.set_budget(0, "cuda")
      local s = lode.stats("cuda")
      print(s.available, s.used, s.reserved, s.budget)
    ]]):gsub("\t", " "))
  end)

  it("says that there is no driver", function()
    if alone then return pending("no other processes under the thread sanitizer") end
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir " .. folder .. " && : > " .. folder .. "/libcuda.so.1"))
    local ok, text = pcall(child, reasons, "LD_LIBRARY_PATH=" .. folder)
    os.execute("rm -r " .. folder)
    if not ok then error(text, 0) end
    if text:find("built without CUDA", 1, true) then return pending("built without CUDA") end
    says(text, "cuda\tfalse\tno NVIDIA driver: ", "libcuda.so.1", "there is no device 'cuda:1': no NVIDIA driver")
    says(text, "\n3")
  end)

  emulated_it("says that there is no GPU", function()
    says(child(reasons, "LODE_EMULATED_GPUS=0"), "cuda\tfalse\tthe NVIDIA driver shows no GPU", "\n3")
  end)

  emulated_it("says that the driver is too old", function()
    says(child(reasons, "LODE_EMULATED_VERSION=11080"), "cuda\tfalse\tthe NVIDIA driver knows CUDA 11.8",
      "lode was built with CUDA ", "update the driver", "\n3")
  end)

  emulated_it("says that the driver does not start", function()
    says(child(reasons, "LODE_EMULATED_FAIL=cuInit:1"), "the NVIDIA driver does not start: cuInit: CUDA_ERROR_UNKNOWN",
      "\n3")
  end)
end)

describe("the cost of a trajectory", function()
  on_cuda("is one launch, and waits only where it is read", function()
    local x = lode.rand({ 500, 20 }, { seed = 1, device = "cuda" }):compute():sync()
    local bytes = x:download()
    support.smoothness(x):compute():sync() -- compiled
    local launches, waits = stats("launches"), stats("waits")
    local cost = support.smoothness(x):compute()
    assert.equal(launches + 1, stats("launches"))
    x:upload(bytes)
    assert.equal(waits, stats("waits"))
    assert.equal(cost:sum():item(), support.smoothness(lode.rand({ 500, 20 }, { seed = 1 })):sum():item())
    cost:sync()
    waits = stats("waits")
    cost:sync()
    assert.equal(waits, stats("waits"))
  end)

  on_cuda("takes no memory from the system in a loop", function()
    local x = lode.rand({ 50000, 20 }, { seed = 1, device = "cuda" }):compute()
    local bytes = x:download()
    local function iterate(count)
      for i = 1, count do
        x:upload(bytes)
        local cost = support.smoothness(x):compute()
        if i % 4 == 0 then cost:max():item() end
        cost:release()
      end
    end
    iterate(50)
    collectgarbage()
    iterate(150)
    local before = stats("system_allocations")
    iterate(50)
    assert.equal(before, stats("system_allocations"))
  end)
end)

describe("a program that ran before", function()
  on_cuda("runs again over other memory, with other offsets, scalars and extents", function()
    local function bytes(device, first, count, scale)
      local x = lode.rand({ 320 }, { seed = first, device = device }):compute()
      local near = x[{ { first, first + count - 1 } }] * scale + x[{ { first + 1, first + count } }]
      local i = lode.arange(320, { dtype = "i64", device = device })[{ { first, first + count - 1 } }]
      local sums = ((near + i):reshape(count / 4, 4) * scale):sum(2)
      local one = x[{ { first, first + count - 1 } }] * scale + i
      return one:compute():download() .. (near + i):compute():download() .. sums:compute():download()
    end
    for _, count in ipairs({ 16, 20, 300 }) do
      for _, first in ipairs({ 1, 5, 2, 6 }) do -- of which every other one is aligned for the same vectors
        for _, scale in ipairs({ 0.5, 3 }) do
          assert.equal(bytes("cpu", first, count, scale), bytes("cuda", first, count, scale))
        end
      end
    end
  end)
end)

describe("uploads and downloads", function()
  -- 16 MiB is the ring, 4 MiB a piece of it, 2 MiB a buffer on the way back.
  on_cuda("of all sizes around those of the buffers arrive", function()
    for _, size in ipairs({ 1, 63, 64, 65, 4096, 2 ^ 20, 2 ^ 21 - 1, 2 ^ 21, 2 ^ 21 + 1, 2 ^ 22, 2 ^ 22 + 5, 2 ^ 24,
      2 ^ 24 + 3, 3 * 2 ^ 24 + 11 }) do
      local flags = ("\1\0\0\1\0\1\1\1\0\0\0\1\1\0\1\1\1\0\0"):rep(math.ceil(size / 19)):sub(1, size)
      local x = lode.tensor(flags, { shape = { size }, dtype = "bool", device = "cuda" })
      assert.is_true(x:download() == flags, "size " .. size)
    end
  end)

  on_cuda("on several streams share the ring", function()
    local streams, results = {}, {}
    for i = 1, 4 do streams[i] = lode.stream("cuda") end
    for round = 1, 12 do
      for i, s in ipairs(streams) do
        local n = 200000 * i + round
        results[#results + 1] = { n, s:run(function()
          local x = lode.tensor(lode.full({ n }, i):download(), { shape = { n }, dtype = "f32", device = "cuda" })
          return (x * 2):max():compute()
        end), 2 * i }
      end
    end
    for _, r in ipairs(results) do assert.equal(r[3], r[2]:item()) end
  end)
end)

local temporaries = [[
  lode.set_budget(40e6, "cuda")
  local x = lode.ones({ 1000, 1000 }, { device = "cuda" }):compute()
  for i = 1, 60 do
    local y = (x + i):compute()
    if i % 7 == 0 then assert(y[3][4]:item() == i + 1) end
  end
  local s = lode.stats("cuda")
  assert(s.used <= 40e6 and s.budget == 40e6)
  local ok, text = pcall(function() return lode.ones({ 20e6 }, { device = "cuda" }):compute() end)
  assert(not ok and text:find("80000000 bytes on cuda:0: used ", 1, true), text)
  assert(text:find("budget 40000000", 1, true), text)
  x, ok = nil, nil
  collectgarbage() collectgarbage()
  lode.ones({ 1 }, { device = "cuda" }):compute():release()
  lode.trim("cuda")
  s = lode.stats("cuda")
  print(s.used, s.reserved < 40e6)
]]

local streams = [[
  local s, t = lode.stream("cuda"), lode.stream("cuda")
  local results = {}
  for round = 1, 40 do
    local shape = { 3000 * (round % 7 + 1) }
    local x = s:run(function() return (lode.full(shape, round, { device = "cuda" }) + 1):compute() end)
    results[3 * round] = t:run(function() return (x * 2):sum():compute() end) -- read by two streams, and then
    results[3 * round + 1] = (x * 3):max():compute()
    x:release() -- freed while both may be at it
    results[3 * round + 2] = s:run(function() return lode.full(shape, -1, { device = "cuda" }):min():compute() end)
    if round % 13 == 0 then lode.trim("cuda") end
  end
  for round = 1, 40 do
    assert(results[3 * round]:item() == 2 * (round + 1) * 3000 * (round % 7 + 1), "sum")
    assert(results[3 * round + 1]:item() == 3 * (round + 1), "max")
    assert(results[3 * round + 2]:item() == -1, "min")
  end
  for _ = 1, 50 do
    lode.stream("cuda"):run(function() return (lode.ones({ 70000 }, { device = "cuda" }) * 2):compute() end)
  end
  s, t, results = nil, nil, nil
  collectgarbage() collectgarbage()
  lode.ones({ 1 }, { device = "cuda" }):compute():release()
  lode.trim("cuda")
  print(lode.stats("cuda").used)
]]

describe("memory", function()
  for _, mode in ipairs({ "1", "0", "exact" }) do
    in_child("with LODE_CUDA_POOL=" .. mode .. " stays in the budget, recovers, and is given back", function()
      assert.equal("0\ttrue", child(temporaries, "LODE_CUDA_POOL=" .. mode))
    end)
    in_child("with LODE_CUDA_POOL=" .. mode .. " is reused in the order of streams", function()
      assert.equal("0", child(streams, "LODE_CUDA_POOL=" .. mode))
      assert.equal("0", child(streams, "LODE_DEBUG_FILL=1 LODE_CUDA_POOL=" .. mode))
      if emulated then assert.equal("0", child(streams, "LODE_EMULATED_LATE=2000 LODE_CUDA_POOL=" .. mode)) end
    end)
  end

  in_child("may have its budget before the first tensor", function()
    assert.equal("1000000\tfalse", child([[
      lode.set_budget(1e6, "cuda")
      io.write(("%.0f"):format(lode.stats("cuda").budget), "\t")
      print((pcall(function() return lode.ones({ 1e6 }, { device = "cuda" }):compute() end)))
    ]]))
  end)

  emulated_it("that the device does not have is an error with numbers", function()
    for _, mode in ipairs({ "1", "0", "exact" }) do
      local text = child([[
        local x = lode.ones({ 1e6 }, { device = "cuda" }):compute()
        print(pcall(function() return lode.ones({ 8e6 }, { device = "cuda" }):compute() end))
        for i = 1, 30 do x = (x + 1):compute() end
        print(x[7]:item())
      ]], "LODE_EMULATED_MEMORY=20000000 LODE_CUDA_POOL=" .. mode)
      says(text, "compute: cannot have 32000000 bytes on cuda:0: used ", "no budget, available ", "\n31")
    end
  end)

  emulated_it("comes without pools where the device has none", function()
    local text = child([[
      for _, d in ipairs(lode.devices()) do io.write(d.properties["memory pools"] or "", " ") end
      print((lode.ones({ 100 }, { device = "cuda" }) + 1):sum():item())
    ]], "LODE_EMULATED_POOLS=0")
    assert.equal(" no 200", text)
  end)
end)

describe("Lua states in threads of their own", function()
  on_cuda("use one GPU at the same time", function()
    if not host then return pending("spec/host is not built") end
    local function script(seed)
      return ([[
        local lode = require("lode")
        lode.set_default({ device = "DEVICE" })
        local text, x = {}, lode.rand({ 200, 300 }, { seed = SEED })
        for i = 1, 40 do
          local s = i % 8 == 0 and lode.stream("DEVICE") or nil
          local y = lode.with({ stream = s }, function() return (x * i + x:flip()):sum(2):compute() end)
          if i % 5 == 0 then text[#text + 1] = ("%.9g"):format(y:max():item()) end
          if i % 11 == 0 then lode.trim("DEVICE") end
          x:upload((x * 0.5 + 0.25):download())
        end
        return table.concat(text, " ")
      ]]):gsub("SEED", seed)
    end
    local states, want = {}, {}
    for i = 1, 4 do
      states[i] = host.open()
      want[i] = host.open():run((script(i):gsub("DEVICE", "cpu")))
    end
    for i, state in ipairs(states) do
      state:start((script(i):gsub("DEVICE", "cuda")))
    end
    for i, state in ipairs(states) do assert.equal(want[i], state:wait()) end
    for i, state in ipairs(states) do state:close(i % 2 == 0) end
  end)
end)

describe("several GPUs", function()
  emulated_it("are devices of their own", function()
    assert.equal("cuda:0 cuda:1 ", child([[
      for _, d in ipairs(lode.devices()) do if d.name ~= "cpu" then io.write(d.name, " ") end end
    ]], "LODE_EMULATED_GPUS=2") .. " ")
    local text = child([[
      local x, y = lode.ones({ 3 }, { device = "cuda" }), lode.ones({ 3 }, { device = "cuda:1" })
      print(x.device, y.device)
      print((x * 2):sum():item(), (y * 3):sum():item(), (x:to("cuda:1") + y):sum():item())
      print(pcall(function() return x + y end))
      local s = lode.stream("cuda:1")
      local a = s:run(function() return (y + 1):compute() end)
      print((a + y):sum():item(), (x + 1):sum():item())
      print(lode.stats("cuda:0").launches > 0, lode.stats("cuda:1").launches > 0)
    ]], "LODE_EMULATED_GPUS=2")
    says(text, "cuda:0\tcuda:1", "6\t9\t6", "add: ", "cuda:0 and cuda:1", "9\t6", "true\ttrue")
  end)

  emulated_it("do not suffer from one that cannot be used", function()
    says(child([[
      print(pcall(function() return lode.ones({ 3 }, { device = "cuda:0" }):sum():item() end))
      print(lode.ones({ 3 }, { device = "cuda:1" }):sum():item())
      print(lode.ones({ 3 }, { device = "cuda:0" }):sum():item())
    ]], "LODE_EMULATED_GPUS=2 LODE_EMULATED_FAIL=cuDevicePrimaryCtxRetain:1"), "cuda:0: cuDevicePrimaryCtxRetain: ",
      "CUDA_ERROR_UNKNOWN", "\n3\n3")
  end)
end)

-- Every function of the driver that a script comes to, failing the first, second and third time.
describe("a driver that fails", function()
  local functions = {
    "cuDevicePrimaryCtxRetain", "cuMemPoolCreate", "cuMemPoolSetAttribute", "cuStreamCreate", "cuEventCreate",
    "cuMemHostAlloc", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuLaunchKernel",
    "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuStreamWaitEvent", "cuLibraryLoadData",
    "cuLibraryGetKernel", "cuMemFreeAsync", "cuMemGetInfo", "cuMemPoolTrimTo",
  }
  local script = [[
    lode.jit = "off" -- nothing is compiled: there are many children
    local said = 0
    local function try(f)
      local ok, text = pcall(f)
      if ok then return end
      assert(type(text) == "string" and text:find("lode: ", 1, true), text)
      assert(text:find("cuda:0: [%w ]+: CUDA_ERROR_UNKNOWN") or text:find("used ", 1, true), text)
      said = said + 1
    end
    local x, s
    for _ = 1, 3 do
      try(function() x = lode.tensor({ 1, 2, 3 }, { device = "cuda" }) end)
      try(function() s = lode.stream("cuda") end)
      try(function() return s and x and s:run(function() return (x + 1):compute() end):sync() end)
      try(function() return x and (x * 2):sum():item() end)
      try(function() return lode.rand({ 100000 }, { device = "cuda" }):sum():item() end)
      try(function() return x and x:upload({ 4, 5, 6 }):sync() end)
      lode.trim("cuda")
      collectgarbage()
    end
    assert(lode.ones({ 4 }):sum():item() == 4) -- the cpu is what it was
    if os.getenv("LODE_EMULATED_LOST") ~= "1" then
      assert((lode.ones({ 4 }, { device = "cuda" }) + 1):sum():item() == 8) -- and so is the GPU, after one failure
    end
    lode.stats("cuda") lode.devices()
    print("done", said)
  ]]

  emulated_it("gives errors that name the device, and leaves all usable", function()
    for _, name in ipairs(functions) do
      for call = 1, 3 do
        local text = child(script, ("LODE_EMULATED_FAIL=%s:%d"):format(name, call))
        assert(text:match("^done\t[0-9]+$"), name .. ": " .. text)
      end
    end
  end)

  emulated_it("for want of memory is asked again after trimming", function()
    local computes = [[
      lode.set_default({ device = "cuda", dtype = "f64" })
      local A = lode.randn({ 40, 40 }, { seed = 1 }) + 40 * lode.eye(40)
      local b = lode.ones({ 40, 3 })
      local x = A:solve(b, { assume = "general" })
      local long = lode.rand({ 40000 }, { seed = 2 })
      print((A:matmul(x) - b):abs():max():item() < 1e-12, (long * 2):sum():item() == 2 * long:sum():item())
    ]]
    for _, name in ipairs({ "cuMemAllocFromPoolAsync", "cuLaunchKernel", "cuLibraryLoadData" }) do
      for _, call in ipairs({ 1, 3, 8 }) do
        for _, jit in ipairs({ "wait", "off" }) do
          local text = child(("lode.jit = %q "):format(jit) .. computes,
            ("LODE_EMULATED_FAIL=%s:%d:2"):format(name, call))
          assert(text == "true\ttrue", ("%s %d, jit %s: %s"):format(name, call, jit, text))
        end
      end
    end
  end)

  emulated_it("for good leaves the cpu usable", function()
    for _, name in ipairs(functions) do
      local text = child(script, ("LODE_EMULATED_LOST=1 LODE_EMULATED_FAIL=%s:2"):format(name))
      assert(text:match("^done\t[0-9]+$"), name .. ": " .. text)
    end
    says(child([[
      local x = lode.ones({ 3 }, { device = "cuda" }):compute()
      print(pcall(function() return (x + 1):sum():item() end))
      print(pcall(function() return x:download() end))
    ]], "LODE_EMULATED_LOST=1 LODE_EMULATED_FAIL=cuLaunchKernel:2"), "cuda:0: ", ": CUDA_ERROR_UNKNOWN",
      "this GPU is lost to the process")
  end)
end)

describe("after fork", function()
  local function it_forks(name, body)
    on_cuda(name, function()
      if not host then return pending("spec/host is not built") end
      if os.getenv("TSAN_OPTIONS") then return pending("the thread sanitizer does not follow a fork") end
      body()
    end)
  end

  it_forks("the child is told that CUDA does not survive it, and its cpu works", function()
    local x = lode.arange(100, { device = "cuda" })
    local y, s = (x * 2):compute(), lode.stream("cuda")
    local e = lode.event({ device = "cuda" }):record()
    local text = host.fork(function()
      local said = {}
      for _, f in ipairs({
        function() return y:download() end, function() return (x + 1):compute() end, function() return y:sync() end,
        function() return lode.ones({ 2 }, { device = "cuda" }):compute() end,
        function() return s:sync() end, function() return lode.stream("cuda") end, function() return e:wait() end,
        function() return lode.tensor({ 1, 2 }, { device = "cuda" }) end, function() return lode.sync("cuda") end,
      }) do
        local ok, e_text = pcall(f)
        said[#said + 1] = not ok and e_text:find("forked after CUDA was started", 1, true) and "told"
          or tostring(ok) .. " " .. tostring(e_text)
      end
      assert(e:ready() and y:ready())
      assert(lode.stats("cuda").used == 0)
      lode.devices() lode.trim("cuda") lode.set_budget(0, "cuda")
      local sum = lode.rand({ 1000 }, { seed = 1 }):sum():item()
      y:release() s:release() e:release()
      x, y, s, e = nil, nil, nil, nil
      collectgarbage() collectgarbage()
      return table.concat(said, ",") .. (" %.9g"):format(sum)
    end)
    local told = ("told,"):rep(8) .. "told"
    assert.equal(told .. (" %.9g"):format(lode.rand({ 1000 }, { seed = 1 }):sum():item()), text)
    assert.equal(9900, y:sum():item()) -- the parent goes on
    s:sync()
  end)

  it_forks("a child that is the first to use CUDA may", function()
    assert.equal("5", child([[
      local host = require("host")
      io.write(host.fork(function()
        return ("%.0f"):format(lode.ones({ 5 }, { device = "cuda" }):sum():item())
      end))
    ]]))
  end)
end)
