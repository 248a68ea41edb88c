/* Errors: the one place that raises, and where in the script it happened.
 *
 * Messages are strings, "cost.lua:12: lode: add: ...". The line is that of the
 * first Lua frame which is not one of lode's own files: C functions, tail calls
 * and the frames of metamethods are passed by. A coroutine whose body is a C
 * function has no Lua frame; then the main thread's frames are looked at. */
#include <stdio.h>
#include <string.h>

#include "binding.h"

static bool own_frame(const lode_lua *state, const lua_Debug *ar) {
  size_t length = strlen(state->own);
  return length > 0 && strncmp(ar->source, state->own, length) == 0;
}

static bool find_frame(lua_State *L, const lode_lua *state, lua_Debug *ar) {
  for (int level = 0; lua_getstack(L, level, ar); level++)
    if (lua_getinfo(L, "Sl", ar) && ar->currentline > 0 && !own_frame(state, ar)) return true;
  return false;
}

void lode_where(lua_State *L, const lode_lua *state, char *text, size_t size) {
  lua_Debug ar;
  bool found = find_frame(L, state, &ar);
  if (!found && state->main != NULL && state->main != L) found = find_frame(state->main, state, &ar);
  if (size > 0) text[0] = '\0';
  if (found) snprintf(text, size, "%s:%d", ar.short_src, ar.currentline);
}

static void LODE_NORETURN raise_text(const lode_call *c, const char *text) {
  char where[LUA_IDSIZE + 16];
  lode_where(c->L, c->state, where, sizeof where);
  lua_pushfstring(c->L, "%s%slode: %s", where, where[0] != '\0' ? ": " : "", text);
  lua_error(c->L);
  for (;;) {
  } /* lua_error does not return, which its declaration does not say */
}

void lode_raise(const lode_call *c, const char *format, ...) {
  char text[1024];
  int length = snprintf(text, sizeof text, "%s: ", c->who);
  if (length < 0 || (size_t)length >= sizeof text) length = 0;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
  va_end(arguments);
  raise_text(c, text);
}

void lode_raise_error(const lode_call *c) { raise_text(c, c->context->error.text); }
