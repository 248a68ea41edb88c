/* A script's numbers: how they become elements, and elements numbers again.
 *
 * Exact for integers and bool; rounded to nearest for floats, whatever rounding or
 * flushing the host has set for its own thread (control.h). */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "control.h"
#include "node.h"

static lode_status scalar_integer(lode_error *error, const char *who, const lode_operand *number,
                                  lode_dtype dtype, int64_t *out) {
  if (number->integer_valued) {
    *out = number->integer;
  } else {
    double x = number->number;
    if (!(x >= -9223372036854775808.0 && x < 9223372036854775808.0) || x != floor(x))
      return lode_fail(error, LODE_INVALID,
                       "%s: %.17g is not exact in %s; convert the tensor with :to(\"f64\")", who, x,
                       lode_dtype_name(dtype));
    *out = (int64_t)x;
  }
  int64_t low = dtype == LODE_BOOL ? 0 : dtype == LODE_I32 ? INT32_MIN : INT64_MIN;
  int64_t high = dtype == LODE_BOOL ? 1 : dtype == LODE_I32 ? INT32_MAX : INT64_MAX;
  if (*out < low || *out > high)
    return lode_fail(error, LODE_INVALID, "%s: %" PRId64 " does not fit in %s", who, *out,
                     lode_dtype_name(dtype));
  return LODE_OK;
}

lode_status lode_scalar_from(lode_error *error, const char *who, const lode_operand *number, lode_dtype dtype,
                             lode_scalar *out) {
  memset(out, 0, sizeof *out);
  if (lode_dtype_kind(dtype) == LODE_KIND_FLOAT) {
    uint64_t control = lode_control_enter();
    volatile int64_t integer = number->integer; /* so that nothing is converted outside of the two calls */
    bool exact = number->integer_valued && integer != 0; /* an integer has no -0.0 */
    volatile double x = exact ? (double)integer : number->number;
    if (dtype == LODE_F32) out->f32 = exact ? (float)integer : (float)x;
    else out->f64 = x;
    lode_control_leave(control);
    return LODE_OK;
  }
  int64_t value;
  LODE_TRY(scalar_integer(error, who, number, dtype, &value));
  if (dtype == LODE_I64) out->i64 = value;
  else if (dtype == LODE_I32) out->i32 = (int32_t)value;
  else out->b = (uint8_t)value;
  return LODE_OK;
}

float lode_narrow(double x) {
  uint64_t control = lode_control_enter();
  volatile double in = x;
  volatile float out = (float)in;
  lode_control_leave(control);
  return out;
}

double lode_widen(float x) {
  uint64_t control = lode_control_enter();
  volatile float in = x;
  volatile double out = in;
  lode_control_leave(control);
  return out;
}

double lode_steps(double from, double to, double step) {
  uint64_t control = lode_control_enter();
  volatile double a = from, b = to, n = step;
  volatile double out = (b - a) / n;
  if (isinf(out) && isfinite(from) && isfinite(to)) out = b / n - a / n; /* the difference alone overflows */
  lode_control_leave(control);
  return out;
}
