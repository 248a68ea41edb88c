/* Handles: a script's hold on a node, shared by tensors and factors. And scopes,
 * which release the handles made while they were open.
 *
 * The collector's __gc does no more than put the node on the context's list of
 * the dead; nobody's memory is freed and no device is called there. */
#include "binding.h"

/* ---- membership --------------------------------------------------------------- */

static void scope_add(lode_scope *scope, lode_handle *handle) {
  handle->scope = scope;
  handle->previous = NULL;
  handle->next = scope->first;
  if (scope->first != NULL) scope->first->previous = handle;
  scope->first = handle;
}

static void scope_remove(lode_handle *handle) {
  if (handle->previous != NULL) handle->previous->next = handle->next;
  else handle->scope->first = handle->next;
  if (handle->next != NULL) handle->next->previous = handle->previous;
  handle->scope = NULL;
  handle->previous = handle->next = NULL;
}

static void move_to(lode_scope *scope, lode_handle *handle) {
  scope_remove(handle);
  scope_add(scope, handle);
}

/* The innermost scope that this coroutine has opened: those of others, which may be suspended, are not ours. */
static lode_scope *scope_of(const lode_call *c) {
  lode_scope *scope = c->state->scope;
  while (scope != &c->state->root && scope->thread != c->L) scope = scope->outer;
  return scope;
}

/* ---- handles ------------------------------------------------------------------ */

lode_handle *lode_handle_push(const lode_call *c, lode_type type) {
  lode_handle *handle = lode_push(c, type, sizeof *handle);
  handle->context = lode_context_ref(c->context);
  scope_add(scope_of(c), handle);
  return handle;
}

void lode_handle_set(lode_handle *handle, lode_node *node) {
  lode_node *before = handle->node;
  node->handles++;
  handle->node = node;
  if (before != NULL) lode_context_discard(handle->context, before);
}

bool lode_handle_release(lode_handle *handle) {
  if (handle->scope != NULL) scope_remove(handle);
  if (handle->node == NULL) return false;
  lode_context_discard(handle->context, handle->node);
  handle->node = NULL;
  return true;
}

static lode_handle *any_handle(const lode_call *c, int index) {
  lode_handle *handle = lode_test(c, index, LODE_TYPE_TENSOR);
  return handle != NULL ? handle : lode_test(c, index, LODE_TYPE_FACTOR);
}

static void close_handle(lode_handle *handle) {
  lode_context *context = handle->context;
  if (context == NULL) return;
  lode_handle_release(handle);
  handle->context = NULL;
  lode_context_unref(context);
}

int lode_handle_gc(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "gc", 1};
  lode_handle *handle = any_handle(&c, 1);
  if (handle != NULL) close_handle(handle);
  return 0;
}

/* Finalizers that run while a state is closed may make objects whose own are never called. */
void lode_handles_close(lode_lua *state) {
  while (state->root.first != NULL) close_handle(state->root.first);
}

/* release(): true if there was something to release. Also __close. While a core call
 * waits for memory its operands are borrowed, and nothing is released. */
int lode_handle_releases(lua_State *L) {
  lode_call c = lode_enter(L, "release");
  lode_handle *handle = any_handle(&c, 1);
  if (handle == NULL) lode_argument_error(&c, 1, "a tensor or a factor");
  bool released = !c.state->pace.borrowed && lode_handle_release(handle);
  lode_collector_released(&c);
  lua_pushboolean(L, released);
  return 1;
}

/* ---- scopes -------------------------------------------------------------------
 *
 * A scope is held by a local variable of lode.scope (init.lua). A coroutine that is dropped while its
 * scope is open leaves it to the collector, so a scope may be unlinked from the middle of the chain. */

static void unlink_scope(lode_lua *state, lode_scope *scope) {
  if (scope->inner != NULL) scope->inner->outer = scope->outer;
  else state->scope = scope->outer;
  scope->outer->inner = scope->inner;
  scope->open = false;
}

static int scope_open(lua_State *L) {
  lode_call c = lode_enter(L, "scope");
  lode_scope *scope = lode_push(&c, LODE_TYPE_SCOPE, sizeof *scope);
  scope->outer = c.state->scope;
  scope->outer->inner = scope;
  scope->thread = L;
  scope->open = true;
  c.state->scope = scope;
  return 1;
}

static int scope_gc(lua_State *L) {
  lode_call c = {L, lua_touserdata(L, lua_upvalueindex(1)), NULL, "scope", 1};
  lode_scope *scope = lode_test(&c, 1, LODE_TYPE_SCOPE);
  if (scope == NULL || !scope->open) return 0;
  while (scope->first != NULL) move_to(&c.state->root, scope->first);
  unlink_scope(c.state, scope);
  return 0;
}

/* The scope around this one in the same coroutine, or the root. */
static lode_scope *outer_of(const lode_call *c, const lode_scope *scope) {
  lode_scope *outer = scope->outer;
  while (outer != &c->state->root && outer->thread != scope->thread) outer = outer->outer;
  return outer;
}

static void keep(const lode_call *c, lode_scope *scope, int index) {
  lode_handle *handle = any_handle(c, index);
  if (handle == NULL || handle->scope != scope) return;
  move_to(outer_of(c, scope), handle);
}

/* keep(scope, ...): handles among the arguments, or in tables among them, belong to the
 * enclosing scope from now on. */
static int scope_keep(lua_State *L) {
  lode_call c = lode_enter(L, "scope");
  lode_scope *scope = lode_test(&c, 1, LODE_TYPE_SCOPE);
  if (scope == NULL || !scope->open) return 0;
  luaL_checkstack(L, 8, "lode: scope");
  for (int i = 2; i <= c.nargs; i++) {
    keep(&c, scope, i);
    if (!lua_istable(L, i)) continue;
    for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1)) keep(&c, scope, -1);
  }
  return 0;
}

static int scope_close(lua_State *L) {
  lode_call c = lode_enter(L, "scope");
  lode_scope *scope = lode_test(&c, 1, LODE_TYPE_SCOPE);
  if (scope == NULL || !scope->open) return 0;
  /* While a core call waits for memory its operands are borrowed: then they stay, with the outer scope. */
  while (scope->first != NULL) {
    if (c.state->pace.borrowed) move_to(outer_of(&c, scope), scope->first);
    else lode_handle_release(scope->first);
  }
  unlink_scope(c.state, scope);
  lode_collector_released(&c);
  return 0;
}

const lode_entry lode_scope_entries[] = {{LODE_IN_PRIVATE, "scope_open", scope_open, 0},
                                         {LODE_IN_PRIVATE, "scope_keep", scope_keep, 0},
                                         {LODE_IN_PRIVATE, "scope_close", scope_close, 0},
                                         {0, NULL, NULL, 0}};
const lode_entry lode_scope_meta[] = {{0, "__gc", scope_gc, 0}, {0, NULL, NULL, 0}};
