/* Takes its process with it, in the way that the method names; and two threads of it never end on their own. */
#include <signal.h>
#define CALL crashes
#include "base.h"
static void *sleeps(void *nothing_) { (void)nothing_; for (;;) pause(); return NULL; }
static void crashes(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  pthread_t thread;
  if (fm_is(method, "segfault")) { volatile int *nowhere = NULL; *nowhere = 1; }
  if (fm_is(method, "abort")) abort();
  if (fm_is(method, "exit")) exit(3);
  if (fm_is(method, "exit well")) exit(0);
  if (fm_is(method, "kill")) raise(SIGKILL);
  if (fm_is(method, "block")) for (;;) pause();
  if (fm_is(method, "thread")) { pthread_create(&thread, NULL, sleeps, NULL); pthread_detach(thread); }
  if (fm_is(method, "print")) {
    printf("{\"done\":1}\nhello from the plugin\n");
    fflush(stdout);
    if (write(1, "and from its depths\n", 20) < 0) abort();
  }
  good_call(self, call, fm_is(method, "print") || fm_is(method, "thread") ? fm_str("echo") : method, request);
}
