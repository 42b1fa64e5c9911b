/* Blocks in `call` until the file exists that the request names. `echo` does not. */
#define CALL blocks
#include "base.h"
static void blocks(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  char path[4096];
  (void)context;
  if (fm_is(method, "block")) {
    memcpy(path, request.ptr, request.len);
    path[request.len] = 0;
    while (access(path, F_OK) != 0) usleep(1000);
    host_of(self)->done(host_of(self), call, FM_OK, fm_str("unblocked"));
  } else good_call(self, call, method, request);
}
