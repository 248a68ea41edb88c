/* See ops.h. */
#include "ops.h"

const lode_op_info lode_ops[LODE_NOPS] = {
#define LODE_UNARY(name, rule, expr)   {#name, 1, LODE_RULE_##rule},
#define LODE_BINARY(name, rule, expr)  {#name, 2, LODE_RULE_##rule},
#define LODE_TERNARY(name, rule, expr) {#name, 3, LODE_RULE_##rule},
#define LODE_COUNTER(name, f32, f64)   {#name, 2, LODE_RULE_COUNTER},
#include "ops.def"
};

const lode_op_info lode_reductions[LODE_NREDUCTIONS] = {
#define LODE_REDUCE(name, rule, identity, expr) {#name, 1, LODE_RULE_##rule},
#define LODE_MOMENT(name, rule)                 {#name, 1, LODE_RULE_##rule},
#include "ops.def"
};
