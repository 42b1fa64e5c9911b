/* Answers every call from a thread of its own. */
#define CALL apart
#include "base.h"
struct later { const fm_host *host; uint64_t call; size_t len; char text[64]; };
static void *answers(void *argument) {
  struct later *later = argument;
  fm_bytes body = {(const uint8_t *)later->text, later->len};
  later->host->done(later->host, later->call, FM_OK, body);
  free(later);
  return NULL;
}
static void apart(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  pthread_t thread;
  struct later *later = malloc(sizeof *later);
  (void)method, (void)context;
  later->host = host_of(self), later->call = call, later->len = request.len;
  memcpy(later->text, request.ptr, request.len);
  pthread_create(&thread, NULL, answers, later);
  pthread_detach(thread);
}
