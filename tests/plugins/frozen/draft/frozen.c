/* A plugin as it was written for 1.0 of the ABI, with the header of that day beside it. It must load and work in every fmail
 * that speaks major 1. Neither file is ever changed; a later minor gets a directory of its own.
 *
 *   echo    answers with its request
 *   ask     calls `projects` of the host, and answers with the answer
 *   count   streams {} and then 1 to 200, as its credit allows
 */
#include "fmail_plugin.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct instance {
  const fm_host *host;
  uint64_t asking;           /* the call that waits for the host's answer */
  uint64_t counting;         /* the call that streams */
  uint64_t sent;
} instance;

static fm_bytes nothing(void) { fm_bytes none = {NULL, 0}; return none; }

static void *create(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  instance *self = calloc(1, sizeof *self);
  if (!self || host->size < sizeof *host) {
    free(self);
    host->done(host, call, FM_E_INTERNAL, fm_str("the host's struct is shorter than it was in 1.0"));
    return NULL;
  }
  self->host = host;
  host->log(host, FM_INFO, fm_str("frozen"), fm_str("created"), fm_str("{\"abi\":1}"));
  host->done(host, call, FM_OK, nothing());
  return self;
}

static void call(void *pointer, uint64_t id, fm_bytes method, fm_bytes context, fm_bytes request) {
  instance *self = pointer;
  (void)context;
  if (fm_is(method, "echo")) self->host->done(self->host, id, FM_OK, request);
  else if (fm_is(method, "ask")) {
    self->asking = id;
    self->host->call(self->host, 1, fm_str("projects"), nothing(), request);
  } else if (fm_is(method, "count")) {
    self->counting = id;
    self->sent = 0;
  } else self->host->done(self->host, id, FM_E_UNSUPPORTED, nothing());
}

static void pull(void *pointer, uint64_t id, uint32_t credits) {
  instance *self = pointer;
  char text[32];
  if (id != self->counting) return;
  for (; credits > 0 && self->sent <= 200; credits--, self->sent++) {
    if (self->sent == 0) snprintf(text, sizeof text, "{}");
    else snprintf(text, sizeof text, "%d", (int)self->sent);
    if (self->host->item(self->host, id, fm_str(text)) != 0) break;
  }
  if (self->sent > 200) {
    self->counting = 0;
    self->host->done(self->host, id, FM_END, nothing());
  }
}

static void cancel(void *pointer, uint64_t id) {
  instance *self = pointer;
  if (id != self->counting) return;
  self->counting = 0;
  self->host->done(self->host, id, FM_E_CANCELLED, nothing());
}

static void destroy(void *pointer, uint64_t id) {
  const fm_host *host = ((instance *)pointer)->host;
  free(pointer);
  host->done(host, id, FM_OK, nothing());
}

static void done(void *pointer, uint64_t id, int32_t status, fm_bytes body) {
  instance *self = pointer;
  (void)id;
  self->host->done(self->host, self->asking, status, body);
}

static int32_t item(void *pointer, uint64_t id, fm_bytes body) { (void)pointer, (void)id, (void)body; return 1; }

static const void *extension(void *pointer, const char *id) { (void)pointer, (void)id; return NULL; }

const fm_plugin fmail_plugin_v1 = {
    FM_MAGIC, FM_ABI_MAJOR, FM_ABI_MINOR, sizeof(fm_plugin), 0,
    "{\"name\":\"frozen\",\"version\":\"1.0\",\"kind\":\"store\",\"profile\":\"store\",\"capabilities\":[\"shared\",\"durable\"],"
    "\"limits\":{\"max_message_bytes\":65536},\"config_schema\":{\"type\":\"object\",\"properties\":{}},\"build\":{}}",
    create, call, pull, cancel, destroy, done, item, extension};
