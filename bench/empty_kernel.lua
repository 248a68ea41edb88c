-- The least that any launch can take: returns a function that launches an empty kernel and waits for it, through the
-- driver alone, in the process and the context that lode runs in. Needs LuaJIT's FFI.
local there, ffi = pcall(require, "ffi")
assert(there, "an empty kernel is launched by LuaJIT only")

ffi.cdef([[
  int cuInit(unsigned flags);
  int cuDeviceGet(int *device, int ordinal);
  int cuDevicePrimaryCtxRetain(void **context, int device);
  int cuCtxSetCurrent(void *context);
  int cuModuleLoadData(void **module, const void *image);
  int cuModuleGetFunction(void **function, void *module, const char *name);
  int cuStreamCreate(void **stream, unsigned flags);
  int cuStreamSynchronize(void *stream);
  int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                     unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **params, void **extra);
]])

local ptx = [[
.version 7.5
.target sm_75
.address_size 64
.visible .entry empty() { ret; }
]]
local non_blocking = 1 -- CU_STREAM_NON_BLOCKING: no order with the default stream

local function call(code, what)
  if code ~= 0 then error(what .. ": CUDA error " .. code, 2) end
end

local cuda = ffi.load("libcuda.so.1")
local device, handle = ffi.new("int[1]"), ffi.new("void *[1]")
call(cuda.cuInit(0), "cuInit")
call(cuda.cuDeviceGet(device, 0), "cuDeviceGet")
call(cuda.cuDevicePrimaryCtxRetain(handle, device[0]), "cuDevicePrimaryCtxRetain")
call(cuda.cuCtxSetCurrent(handle[0]), "cuCtxSetCurrent")
call(cuda.cuModuleLoadData(handle, ptx), "cuModuleLoadData")
call(cuda.cuModuleGetFunction(handle, handle[0], "empty"), "cuModuleGetFunction")
local kernel = handle[0]
call(cuda.cuStreamCreate(handle, non_blocking), "cuStreamCreate")
local stream = handle[0]

return function()
  call(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nil, nil), "cuLaunchKernel")
  call(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize")
end
