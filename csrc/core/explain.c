/* What LODE_TRACE tells of passes and of what cuts them. */
#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace.h"

/* ---- a text that ends where its room does ------------------------------------------ */

typedef struct line {
  char text[1024];
  size_t length;
} line;

static void add(line *l, const char *text) {
  size_t length = strlen(text), room = sizeof l->text - 1 - l->length;
  if (length > room) length = room;
  memcpy(l->text + l->length, text, length);
  l->length += length;
  l->text[l->length] = 0;
}

static void add_count(line *l, int count, const char *what, bool first) {
  char text[96];
  if (count == 0) return;
  snprintf(text, sizeof text, "%s%s", first ? "" : ", ", what);
  add(l, text);
  if (count == 1) return;
  snprintf(text, sizeof text, " x %d", count);
  add(l, text);
}

/* ---- a pass -------------------------------------------------------------------------- */

/* What is computed, in the order of ops.def: "subtract, exp, max of a row". */
static void add_operations(line *l, const lode_program *program) {
  int op[LODE_NOPS] = {0}, reduction[LODE_NREDUCTIONS] = {0}, gathers = 0, casts = 0;
  for (int v = 0; v < program->nvalues; v++) {
    const lode_value *value = &program->value[v];
    if (value->kind == LODE_VALUE_OP) op[value->op]++;
    if (value->kind == LODE_VALUE_REDUCE) reduction[value->op]++;
    gathers += value->kind == LODE_VALUE_GATHER;
    casts += value->kind == LODE_VALUE_CAST;
  }
  size_t begin = l->length;
  for (int i = 0; i < LODE_NOPS; i++) add_count(l, op[i], lode_ops[i].name, l->length == begin);
  add_count(l, casts, "cast", l->length == begin);
  add_count(l, gathers, "rearranged row", l->length == begin);
  for (int i = 0; i < LODE_NREDUCTIONS; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s of rows", lode_reductions[i].name);
    add_count(l, reduction[i], text, l->length == begin);
  }
  int ends[LODE_NREDUCTIONS] = {0};
  for (int o = 0; o < program->noutputs && program->form != LODE_REDUCE_NONE; o++)
    ends[program->reduction[o]]++;
  for (int i = 0; i < LODE_NREDUCTIONS; i++) add_count(l, ends[i], lode_reductions[i].name, l->length == begin);
  if (l->length == begin) add(l, "copy");
}

void lode_explain_pass(const lode_device *device, const lode_program *program, const lode_args *args) {
  line l = {.length = 0};
  int64_t rows = 1;
  int reads = 0;
  for (int d = 0; d < args->nouter; d++) rows *= args->outer[d];
  for (int v = 0; v < program->nvalues; v++) reads += program->value[v].kind == LODE_VALUE_ACCESS;
  add_operations(&l, program);
  lode_trace("%s: a pass over %" PRId64 " x %" PRId64 "%s: %s; reads %d, stores %d", device->name, rows,
             args->inner, program->rows ? " by rows" : "", l.text, reads, program->noutputs);
}

void lode_explain_work(const lode_node *node, const char *what) {
  lode_text shape;
  if (lode_tracing()) lode_trace("%s: %s %s", node->device->name, what, lode_shape_print(&node->shape, &shape));
}

/* ---- what ends a pass -------------------------------------------------------------------- */

static const char *name_of(const lode_node *node) {
  switch ((lode_node_kind)node->kind) {
  case LODE_NODE_OP:
    return lode_ops[node->op].name;
  case LODE_NODE_REDUCE:
    return lode_reductions[node->op].name;
  case LODE_NODE_CONCAT:
    return "concat";
  case LODE_NODE_RESHAPE:
    return "reshape";
  default:
    return "a value";
  }
}

void lode_explain_cut(const lode_node *node, const char *why) {
  lode_text shape;
  if (!lode_tracing()) return;
  lode_trace("%s: %s %s is stored: %s", node->device->name, name_of(node),
             lode_shape_print(&node->shape, &shape), why);
}

const char *lode_explain_reduction(const lode_node *node) {
  const lode_shape *shape = &node->input[0]->shape;
  int last = shape->ndim - 1;
  while (last > 0 && shape->dim[last] == 1) last--;
  if (node->passed && node->handles > 0) return "a second compute needs it, and a tensor holds it";
  if (!(node->as.mask & 1u << last)) return "it is not along the last dim";
  if (lode_row_of_reduction(node) >= 0) return "several passes use it, or it is of other rows than they are";
  return shape->dim[last] > LODE_ROW_REDUCE_MAX ? "its rows are too long to be kept"
                                                : "it is over several dims";
}
