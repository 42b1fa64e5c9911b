/* A whole relay; the test names it as a store. */
#define KIND "relay"
#define DONE answered
#define ITEM item
#include "base.h"
static void answered(void *self, uint64_t call, int32_t status, fm_bytes body) { (void)self, (void)call, (void)status, (void)body; }
static int32_t item(void *self, uint64_t call, fm_bytes body) { (void)self, (void)call, (void)body; return 0; }
