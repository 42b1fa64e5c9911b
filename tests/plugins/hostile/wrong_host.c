/* Answers through addresses that are no fm_host: null, a copy of the struct, an address that cannot be read. */
#define CALL wrong
#include "base.h"
static void wrong(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  const fm_host *host = host_of(self);
  const fm_host copy = *host;
  const fm_host *others[] = {NULL, &copy, (const fm_host *)64};
  for (int i = 0; i < 3; i++) {
    host->done(others[i], call, FM_OK, fm_str("through a wrong host"));
    host->item(others[i], call, fm_str("through a wrong host"));
    host->log(others[i], FM_INFO, fm_str("x"), fm_str("x"), nothing());
    host->call(others[i], 1, fm_str("projects"), nothing(), nothing());
    host->pull(others[i], 1, 1);
    host->cancel(others[i], 1);
  }
  (void)context;
  good_call(self, call, method, request);
}
