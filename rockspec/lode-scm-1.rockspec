rockspec_format = "3.0"
package = "lode"
version = "scm-1"
source = { url = "git+file://." } -- built where it is checked out, with `luarocks make`
description = {
  summary = "Tensors for Lua that live where they are computed",
  detailed = [[
lode gives Lua scripts tensors on the CPU or an NVIDIA GPU: it records what a script asks for,
fuses it into single passes over memory, and waits only where it is told to.
Matrix products, factorizations and solves use OpenBLAS, or cuBLAS and cuSOLVER.]],
  license = "MIT",
}
dependencies = { "lua >= 5.1, < 5.5" }
-- OpenBLAS and CUDA are looked for by the makefile: an entry in external_dependencies
-- would make it mandatory.
build = {
  type = "make",
  build_target = "rock",
  variables = {
    BUILD = "build/rock",
    LUA = "$(LUA)",
  },
  build_variables = {
    CFLAGS = "$(CFLAGS)",
    LIBFLAG = "$(LIBFLAG)",
    LUA_INCDIR = "$(LUA_INCDIR)",
  },
  install_variables = {
    CFLAGS = "$(CFLAGS)",
    LIBFLAG = "$(LIBFLAG)",
    LUA_INCDIR = "$(LUA_INCDIR)",
    PREFIX = "$(PREFIX)",
    BINDIR = "$(BINDIR)",
    LIBDIR = "$(LIBDIR)",
    LUADIR = "$(LUADIR)",
  },
}
test = {
  type = "command",
  script = "scripts/test-rock.lua", -- on what `luarocks make` has built
}
