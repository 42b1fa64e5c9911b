/* A store that calls the host: in `create`, in `call`, and in `destroy`. The answers stand in the log. */
#define CREATE early
#define CALL asks
#define DESTROY last
#define DONE answered
#include "base.h"
static instance *made;
static void *early(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  made = make(host);
  host->call(host, 1, fm_str("projects"), nothing(), fm_str("early"));
  host->done(host, call, FM_OK, nothing());
  return made;
}
static uint64_t waiting;
static void asks(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  waiting = call;
  if (fm_is(method, "ask")) host_of(self)->call(host_of(self), 7, fm_str("projects"), nothing(), request);
  else if (fm_is(method, "ask badly")) host_of(self)->call(host_of(self), 8, fm_str("\xff"), nothing(), request);
  else good_call(self, call, method, request);
}
static void answered(void *self, uint64_t call, int32_t status, fm_bytes body) {
  char text[512];
  int len = snprintf(text, sizeof text, "%d to %d: %.*s", (int)status, (int)call, (int)body.len, (const char *)body.ptr);
  fm_bytes answer = {(const uint8_t *)text, (size_t)len};
  if (self != made) abort();
  if (waiting) host_of(self)->done(host_of(self), waiting, FM_OK, answer);
  host_of(self)->log(host_of(self), FM_INFO, fm_str("asks"), answer, nothing());
}
static void last(void *self, uint64_t call) {
  const fm_host *host = host_of(self);
  waiting = 0;
  host->call(host, 9, fm_str("projects"), nothing(), nothing());
  host->done(host, call, FM_OK, nothing());
}
