/* Writes to the standard output of the program that it is loaded into: rule 8. */
#define CALL prints
#include "base.h"
static void prints(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  printf("hello from the plugin\n");
  fflush(stdout);
  good_call(self, call, method, request);
}
