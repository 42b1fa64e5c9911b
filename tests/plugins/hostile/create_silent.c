/* Returns and never answers. */
#define CREATE silent
#include "base.h"
static void *silent(const fm_host *host, uint64_t call, fm_bytes envelope) { (void)call, (void)envelope; return make(host); }
