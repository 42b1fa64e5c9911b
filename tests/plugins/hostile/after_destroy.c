/* Answers `destroy`, and then everything else that it still owes: a call, items, a log line, a call of its own. */
#define CALL keeps
#define DESTROY talks
#include "base.h"
static uint64_t kept;
static void keeps(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  if (fm_is(method, "hang")) kept = call;
  else good_call(self, call, method, request);
}
static void talks(void *self, uint64_t call) {
  const fm_host *host = host_of(self);
  free(self);
  host->done(host, call, FM_OK, nothing());
  host->done(host, kept, FM_OK, fm_str("late"));
  host->item(host, kept, fm_str("late"));
  host->done(host, call, FM_OK, nothing());
  host->log(host, FM_ERROR, nothing(), fm_str("late"), nothing());
  host->call(host, 1, fm_str("projects"), nothing(), nothing());
  host->pull(host, 1, 1);
  host->cancel(host, 1);
}
