/* A small host for the specs: what a program that embeds Lua does and a script cannot.
 *
 * It opens and closes Lua states, runs text in them in this or in other OS threads,
 * forks, and changes the floating-point control word. It is a Lua module of its own
 * that knows nothing of lode: states find lode by LUA_PATH and LUA_CPATH, as the
 * interpreter does. Built by `make check` alone. Only the specs' thread calls the
 * functions here; an object is not shared between threads. */
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((visibility("default"))) int luaopen_host(lua_State *L);

static const char type_name[] = "host.state";

/* ---- states ------------------------------------------------------------------ */

typedef struct host_state {
  lua_State *L; /* NULL once closed */
  pthread_t thread;
  bool started; /* `thread` runs `text` */
  char *text;   /* owned */
  char *result; /* owned; what the text returned, or its error */
  bool ok;
} host_state;

static host_state *state_at(lua_State *L, int index) {
  host_state *state = luaL_checkudata(L, index, type_name);
  if (state->L == NULL) luaL_error(L, "host: the state is closed");
  return state;
}

/* Runs the text; its first result or its error, as a string, becomes `result`. */
static void execute(host_state *state) {
  lua_State *L = state->L;
  state->ok = luaL_loadstring(L, state->text) == 0 && lua_pcall(L, 0, 1, 0) == 0;
  const char *result = lua_tostring(L, -1);
  free(state->result);
  state->result = strdup(result != NULL ? result : "");
  lua_settop(L, 0);
}

static void take_text(lua_State *L, host_state *state) {
  const char *text = luaL_checkstring(L, 2);
  if (state->started) luaL_error(L, "host: the state is running");
  free(state->text);
  state->text = strdup(text);
}

static int push_result(lua_State *L, const host_state *state) {
  lua_pushstring(L, state->result != NULL ? state->result : "");
  return state->ok ? 1 : lua_error(L);
}

/* open(): a new state with the standard libraries. */
static int host_open(lua_State *L) {
  host_state *state = lua_newuserdata(L, sizeof *state);
  memset(state, 0, sizeof *state);
  luaL_getmetatable(L, type_name);
  lua_setmetatable(L, -2);
  state->L = luaL_newstate();
  if (state->L == NULL) return luaL_error(L, "host: no memory for a state");
  luaL_openlibs(state->L);
  return 1;
}

/* state:run(text): in this thread. Returns its result as a string, or raises its error. */
static int state_run(lua_State *L) {
  host_state *state = state_at(L, 1);
  take_text(L, state);
  execute(state);
  return push_result(L, state);
}

static void *thread_main(void *argument) {
  execute(argument);
  return NULL;
}

/* state:start(text): in a thread of its own. */
static int state_start(lua_State *L) {
  host_state *state = state_at(L, 1);
  take_text(L, state);
  state->started = pthread_create(&state->thread, NULL, thread_main, state) == 0;
  return state->started ? 0 : luaL_error(L, "host: no thread");
}

static void join(host_state *state) {
  if (state->started) pthread_join(state->thread, NULL);
  state->started = false;
}

/* state:wait(): for what was started. Returns as run does. */
static int state_wait(lua_State *L) {
  host_state *state = state_at(L, 1);
  join(state);
  return push_result(L, state);
}

static void *close_main(void *argument) {
  lua_close(argument);
  return NULL;
}

/* state:close(elsewhere): lua_close, after what was started; `elsewhere`: in a thread of its own. */
static int state_close(lua_State *L) {
  host_state *state = state_at(L, 1);
  bool elsewhere = lua_toboolean(L, 2);
  pthread_t thread;
  join(state);
  if (!elsewhere) lua_close(state->L);
  else if (pthread_create(&thread, NULL, close_main, state->L) == 0) pthread_join(thread, NULL);
  else return luaL_error(L, "host: no thread");
  state->L = NULL;
  return 0;
}

static int state_gc(lua_State *L) {
  host_state *state = luaL_checkudata(L, 1, type_name);
  join(state);
  if (state->L != NULL) lua_close(state->L);
  state->L = NULL;
  free(state->text);
  free(state->result);
  state->text = state->result = NULL;
  return 0;
}

/* ---- fork --------------------------------------------------------------------- */

enum { CHILD_SECONDS = 60 }; /* after which a child that hangs is killed */

static void child(lua_State *L, int to) {
  alarm(CHILD_SECONDS);
  bool ok = lua_pcall(L, 0, 1, 0) == 0;
  size_t length;
  const char *text = lua_tolstring(L, -1, &length);
  if (text == NULL) text = "", length = 0;
  while (length > 0) {
    ssize_t written = write(to, text, length);
    if (written <= 0) break;
    text += written;
    length -= (size_t)written;
  }
  _exit(ok ? 0 : 1);
}

static void push_all(lua_State *L, int from) {
  luaL_Buffer buffer;
  char part[512];
  ssize_t count;
  luaL_buffinit(L, &buffer);
  while ((count = read(from, part, sizeof part)) > 0 || (count < 0 && errno == EINTR))
    if (count > 0) luaL_addlstring(&buffer, part, (size_t)count);
  luaL_pushresult(&buffer);
}

/* fork(function): calls it in a child process; returns its result as a string, or raises its error. */
static int host_fork(lua_State *L) {
  int pipes[2], status;
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (pipe(pipes) != 0) return luaL_error(L, "host: no pipe");
  pid_t pid = fork();
  if (pid == 0) child(L, pipes[1]);
  close(pipes[1]);
  if (pid > 0) push_all(L, pipes[0]);
  close(pipes[0]);
  if (pid < 0) return luaL_error(L, "host: no fork");
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return luaL_error(L, "host: the child was killed by signal %d", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? 1 : lua_error(L);
}

/* ---- the floating-point control word --------------------------------------------- */

#if defined(__x86_64__)
static const uint64_t modes[] = {0x8040, 0x4000, 0x2000, 0x6000}; /* FTZ and DAZ; RC of MXCSR */
static const uint64_t changed_bits = 0xffc0;                      /* the others are flags of what happened */
static uint64_t control_get(void) { return __builtin_ia32_stmxcsr(); }
static void control_set(uint64_t word) { __builtin_ia32_ldmxcsr((unsigned)word); }
#elif defined(__aarch64__)
static const uint64_t modes[] = {1u << 24, 1u << 22, 2u << 22, 3u << 22}; /* FZ; RMode of FPCR */
static const uint64_t changed_bits = UINT64_MAX;
static uint64_t control_get(void) {
  uint64_t word;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(word));
  return word;
}
static void control_set(uint64_t word) { __asm__ __volatile__("msr fpcr, %0" : : "r"(word)); }
#endif

static const char *const mode_names[] = {"flush", "up", "down", "zero", NULL};

/* control(mode, function): calls it with denormals flushed to zero, or results rounded up, down or towards
 * zero. Returns its result, and whether the control word was still so at the end. */
static int host_control(lua_State *L) {
  int mode = luaL_checkoption(L, 1, NULL, mode_names);
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_settop(L, 2);
  uint64_t before = control_get(), word = before | modes[mode];
  control_set(word);
  int status = lua_pcall(L, 0, 1, 0);
  bool kept = (control_get() & changed_bits) == (word & changed_bits);
  control_set(before);
  if (status != 0) return lua_error(L);
  lua_pushboolean(L, kept);
  return 2;
}

/* ---- registration ----------------------------------------------------------------- */

static void set_functions(lua_State *L, const luaL_Reg *entry) {
  for (; entry->name != NULL; entry++) {
    lua_pushcfunction(L, entry->func);
    lua_setfield(L, -2, entry->name);
  }
}

int luaopen_host(lua_State *L) {
  static const luaL_Reg methods[] = {{"run", state_run},     {"start", state_start}, {"wait", state_wait},
                                     {"close", state_close}, {"__gc", state_gc},     {NULL, NULL}};
  static const luaL_Reg functions[] = {
      {"open", host_open}, {"fork", host_fork}, {"control", host_control}, {NULL, NULL}};
  luaL_newmetatable(L, type_name);
  set_functions(L, methods);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_newtable(L);
  set_functions(L, functions);
  return 1;
}
