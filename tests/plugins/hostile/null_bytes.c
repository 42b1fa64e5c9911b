/* Null pointers with a length, and a length that no memory has. */
#define CALL null
#include "base.h"
static void null(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  fm_bytes wrong = {NULL, 5}, huge = {request.ptr, SIZE_MAX};
  (void)context;
  host_of(self)->log(host_of(self), FM_INFO, wrong, wrong, wrong);
  if (fm_is(request, "null")) host_of(self)->done(host_of(self), call, FM_OK, wrong);
  else if (fm_is(request, "huge")) host_of(self)->done(host_of(self), call, FM_OK, huge);
  else if (fm_is(request, "negative")) host_of(self)->done(host_of(self), call, FM_E_CONFLICT, wrong);
  else good_call(self, call, method, request);
}
