/* The one place that knows Lua versions: code is written for the newest API, and
 * what PUC 5.1 and LuaJIT lack is mapped here. */
#ifndef LODE_COMPAT_H
#define LODE_COMPAT_H

#include <lauxlib.h>
#include <lua.h>

#if LUA_VERSION_NUM < 502
#define lua_rawlen(L, index) lua_objlen(L, index)
/* Only for indices that are not pseudo-indices. */
#define lua_absindex(L, index) ((index) > 0 ? (index) : lua_gettop(L) + (index) + 1)
#endif

/* LuaJIT names one type more than lua.h does: FFI values. */
#define LODE_TCDATA 10

#endif
