/* Never ends, and does not answer a call of the method `hang` either. */
#define CALL hangs
#define DESTROY forever
#include "base.h"
static void hangs(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  if (!fm_is(method, "hang")) good_call(self, call, method, request);
}
static void forever(void *self, uint64_t call) { (void)self, (void)call; for (;;) pause(); }
