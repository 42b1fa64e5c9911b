/* `echo` answers with bytes that are no text; `count` sends such an item after its head and goes on. */
#define CALL bytes
#define PULL bytes_pulled
#include "base.h"
static void bytes(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  good_call(self, call, method, fm_is(method, "echo") ? fm_str("abc\xff") : request);
}
static void bytes_pulled(void *self, uint64_t call, uint32_t credits) {
  (void)credits;
  if (!stream(self, call, 0)) return;
  host_of(self)->item(host_of(self), call, fm_str("{}"));
  host_of(self)->item(host_of(self), call, fm_str("\xc3\x28"));
  host_of(self)->item(host_of(self), call, fm_str("3"));
  host_of(self)->done(host_of(self), call, FM_END, nothing());
}
