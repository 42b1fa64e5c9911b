/* A plugin that keeps every rule, in pieces. Each file beside this one replaces a piece by something wrong: it defines the
 * name of the piece before it includes this, and the function after.
 *
 *   echo    answers with its request
 *   count   streams {} and then 1 to 5, all with its first credit
 */
#ifndef BASE_H
#define BASE_H

#define _GNU_SOURCE
#include "fmail_plugin.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifndef MAGIC
#define MAGIC FM_MAGIC
#endif
#ifndef MAJOR
#define MAJOR FM_ABI_MAJOR
#endif
#ifndef SIZE
#define SIZE sizeof(fm_plugin)
#endif
#ifndef SYMBOL
#define SYMBOL fmail_plugin_v1
#endif
#ifndef KIND
#define KIND "store"
#endif
#ifndef MORE
#define MORE ""
#endif
#ifndef MANIFEST
#define MANIFEST                                                                                                      \
  "{\"name\":\"hostile\",\"version\":\"1\",\"kind\":\"" KIND "\"," MORE                                               \
  "\"config_schema\":{\"type\":\"object\",\"properties\":{\"depth\":{\"type\":\"integer\",\"maximum\":9}}}}"
#endif

typedef struct instance {
  const fm_host *host;
  uint64_t streams[16]; /* the calls of `count` that have had no credit yet */
  pthread_mutex_t lock;
} instance;

static inline const fm_host *host_of(void *self) { return ((instance *)self)->host; }
static inline fm_bytes nothing(void) { fm_bytes none = {NULL, 0}; return none; }

static inline instance *make(const fm_host *host) {
  instance *made = calloc(1, sizeof *made);
  made->host = host;
  pthread_mutex_init(&made->lock, NULL);
  return made;
}

/* Puts `to` in the place of `from` in the list of streams; whether `from` was there. */
static inline int stream(instance *self, uint64_t from, uint64_t to) {
  int found = 0;
  pthread_mutex_lock(&self->lock);
  for (int i = 0; i < 16 && !found; i++)
    if (self->streams[i] == from) { self->streams[i] = to; found = 1; }
  pthread_mutex_unlock(&self->lock);
  return found;
}

static inline void good_call(void *self, uint64_t call, fm_bytes method, fm_bytes request) {
  if (fm_is(method, "echo")) host_of(self)->done(host_of(self), call, FM_OK, request);
  else if (!fm_is(method, "count") || !stream(self, 0, call))
    host_of(self)->done(host_of(self), call, FM_E_UNSUPPORTED, fm_str("no such method"));
}

#ifdef CREATE
static void *CREATE(const fm_host *host, uint64_t call, fm_bytes envelope);
#else
#define CREATE create
static void *create(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  instance *made = make(host);
  host->done(host, call, FM_OK, nothing());
  return made;
}
#endif

#ifdef CALL
static void CALL(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request);
#else
#define CALL call_
static void call_(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  good_call(self, call, method, request);
}
#endif

#ifdef PULL
static void PULL(void *self, uint64_t call, uint32_t credits);
#else
#define PULL pull
static void pull(void *self, uint64_t call, uint32_t credits) {
  (void)credits;
  static const char *items[] = {"{}", "1", "2", "3", "4", "5"};
  if (!stream(self, call, 0)) return;
  for (int i = 0; i < 6; i++) host_of(self)->item(host_of(self), call, fm_str(items[i]));
  host_of(self)->done(host_of(self), call, FM_END, nothing());
}
#endif

#ifdef CANCEL
static void CANCEL(void *self, uint64_t call);
#else
#define CANCEL cancel
static void cancel(void *self, uint64_t call) { (void)self, (void)call; }
#endif

#ifdef DESTROY
static void DESTROY(void *self, uint64_t call);
#else
#define DESTROY destroy
static void destroy(void *self, uint64_t call) {
  const fm_host *host = host_of(self);
  free(self);
  host->done(host, call, FM_OK, nothing());
}
#endif

#ifdef DONE
static void DONE(void *self, uint64_t call, int32_t status, fm_bytes body);
#else
#define DONE NULL
#endif
#ifdef ITEM
static int32_t ITEM(void *self, uint64_t call, fm_bytes body);
#else
#define ITEM NULL
#endif

#ifndef TABLE
extern FM_EXPORT const fm_plugin SYMBOL;
const fm_plugin SYMBOL = {MAGIC, MAJOR, FM_ABI_MINOR, SIZE, 0, MANIFEST, CREATE, CALL, PULL, CANCEL, DESTROY, DONE, ITEM, NULL};
#endif

#endif
