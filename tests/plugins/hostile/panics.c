/* Says in every entry that it panicked; the answer to `destroy` included. */
#define CALL panics
#define PULL panics_pulled
#define DESTROY panics_at_last
#include "base.h"
static void panics(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context, (void)request;
  if (fm_is(method, "count") && stream(self, 0, call)) return;
  host_of(self)->done(host_of(self), call, FM_E_PANIC, fm_str("panicked: index out of bounds"));
}
static void panics_pulled(void *self, uint64_t call, uint32_t credits) {
  (void)credits;
  if (stream(self, call, 0)) host_of(self)->done(host_of(self), call, FM_E_PANIC, fm_str("panicked: in pull"));
}
static void panics_at_last(void *self, uint64_t call) {
  host_of(self)->done(host_of(self), call, FM_E_PANIC, fm_str("panicked: at last"));
}
