/* Enumerations and facts made from ops.def. */
#ifndef LODE_OPS_H
#define LODE_OPS_H

#include "dtype.h"

typedef enum lode_rule {
  LODE_RULE_NUMERIC,
  LODE_RULE_FLOATING,
  LODE_RULE_COMPARE,
  LODE_RULE_LOGICAL,
  LODE_RULE_SELECT,
  LODE_RULE_COUNTER
} lode_rule;

typedef enum lode_op {
#define LODE_UNARY(name, rule, expr)   LODE_OP_##name,
#define LODE_BINARY(name, rule, expr)  LODE_OP_##name,
#define LODE_TERNARY(name, rule, expr) LODE_OP_##name,
#define LODE_COUNTER(name, f32, f64)   LODE_OP_##name,
#include "ops.def"
  LODE_NOPS
} lode_op;

typedef enum lode_reduction {
#define LODE_REDUCE(name, rule, identity, expr) LODE_RED_##name,
#define LODE_MOMENT(name, rule)                 LODE_RED_##name,
#include "ops.def"
  LODE_NREDUCTIONS
} lode_reduction;

typedef struct lode_op_info {
  const char *name;
  int arity; /* operands */
  lode_rule rule;
} lode_op_info;

extern const lode_op_info lode_ops[LODE_NOPS];
extern const lode_op_info lode_reductions[LODE_NREDUCTIONS];

#endif
