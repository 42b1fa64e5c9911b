/* Answers with a status that does not exist: the request's first digit, negative. */
#define CALL odd
#include "base.h"
static void odd(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context, (void)method;
  host_of(self)->done(host_of(self), call, fm_is(request, "up") ? 77 : -77, fm_str("odd"));
}
