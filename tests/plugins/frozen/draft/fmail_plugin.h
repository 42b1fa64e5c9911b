/* fmail_plugin.h - the fmail plugin ABI, major 1 (draft).  C99 / C++11, no dependencies.
 *
 * A plugin is a shared library that exports one symbol, `fmail_plugin_v1`: a struct of functions beside a manifest. The
 * host fills in a struct of its own, `fm_host`. What flows between the two is text: fmail's JSON, or the lines of the log
 * profile. This file is the specification; docs/plugins/ explains it. A program that is no library speaks the same verbs
 * as JSON lines on its standard input and output: docs/plugins/abi.md.
 *
 * Calls go both ways, in one shape.  The caller chooses an id and calls `call`; the other side answers with exactly one
 * `done`.  A method that streams sends `item`s before that, never more than `pull` has asked for.  The host calls stores,
 * transports and relays; transports and relays also call the host.  The two directions have each their own ids: the host's
 * 7 and the plugin's 7 are two calls.
 *
 * Rules that hold everywhere, for both sides
 *   1 Borrowing.   Bytes are valid only until the function that they were passed to returns.  Copy what you keep.  Nobody
 *                  ever frees the other side's memory.  Empty bytes may have a NULL pointer.
 *   2 One answer.  A call gets exactly one `done`, from any thread, perhaps before `call` has returned.  Ids are never
 *                  used twice.  A second answer, or one to an id that was never given out, is ignored and counted.
 *   3 Growth.      Within a major, structs only grow at the end.  Read a field of the other side's struct only if its
 *                  `size` covers it.  What has no meaning yet is zero.
 *   4 No unwinding. No C++ exception, Rust panic or longjmp leaves a function of either struct.
 *   5 Threads.     Every function may be called from any thread, at the same time as any other, and must not block.  Work
 *                  that waits for a disk, a lock that is held meanwhile, or another machine goes to a thread of your own.
 *   6 Re-entry.    `done` and `item` may be called from inside `call` and `pull`.  Hold no lock across a call to the other
 *                  side.
 *   7 Life.        A library is never unloaded; both structs stay valid until the process ends.  Between `create` and the
 *                  answer to `destroy` an instance is alive.  The host calls nothing of it before `create` has been answered
 *                  with FM_OK, nor after it has called `destroy`; what an instance says after its `destroy` was answered is
 *                  ignored, and what it asks is answered with FM_E_CANCELLED.
 *   8 stdout.      Standard output belongs to the program that you are loaded into.  Say things with `log`.
 */
#ifndef FMAIL_PLUGIN_H
#define FMAIL_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FM_MAGIC     UINT64_C(0x314E4C504C414D46) /* "FMALPLN1" in memory on a little-endian machine */
#define FM_ABI_MAJOR 1u
#define FM_ABI_MINOR 0u

/* Text that is borrowed: UTF-8, not ended by a zero byte. */
typedef struct fm_bytes {
  const uint8_t *ptr;
  size_t len;
} fm_bytes;

/* How a call ended.
 *
 * The body of a negative status is either a plain sentence for an operator, or JSON:
 *   {"code":"conflict","message":"…","help":"…","retryable":false}
 * `code` is one of fmail's error codes and says more than the status does; without it the status decides. */
enum fm_status {
  FM_OK = 0,             /* done; the body is the answer                                        */
  FM_END = 1,            /* a stream has delivered everything                                   */
  FM_E_INVALID = -1,     /* a request or a configuration that can never be accepted             */
  FM_E_NOT_FOUND = -2,   /* there is no such thing                                              */
  FM_E_CONFLICT = -3,    /* someone else was first; nothing has changed                         */
  FM_E_DENIED = -4,      /* not allowed                                                         */
  FM_E_UNSUPPORTED = -5, /* a method that this plugin does not have                             */
  FM_E_UNAVAILABLE = -6, /* not now: the same call may succeed later                            */
  FM_E_CANCELLED = -7,   /* given up, on the caller's wish or because its time was over         */
  FM_E_INTERNAL = -8,    /* a defect, or data that cannot be understood                         */
  FM_E_PANIC = -9        /* the plugin caught itself failing; the instance goes on              */
};

/* The levels of `log`, and of `log_level`: what is above the level need not even be formatted. */
enum fm_level { FM_OFF = 0, FM_ERROR = 1, FM_WARN = 2, FM_INFO = 3, FM_DEBUG = 4, FM_TRACE = 5 };

/* What the host offers.  One struct for each instance: hand the pointer back as it came. */
typedef struct fm_host {
  uint32_t size;      /* sizeof(fm_host) in the host                                            */
  uint32_t abi_minor; /* the highest minor that the host speaks                                 */
  void *data;         /* the host's own                                                         */
  uint32_t log_level; /* see fm_level                                                           */
  uint32_t reserved;  /* 0                                                                      */

  /* Answers to what the host has called.  `item` returns 0, or something else when the stream is to stop: the call was
   * given up, or this item was more than was asked for and has been thrown away. */
  void (*done)(const struct fm_host *, uint64_t call, int32_t status, fm_bytes body);
  int32_t (*item)(const struct fm_host *, uint64_t call, fm_bytes body);

  /* Says something to the operator.  `fields` is a JSON object, or empty. */
  void (*log)(const struct fm_host *, uint32_t level, fm_bytes target, fm_bytes message, fm_bytes fields);

  /* Calls into the host, for transports and relays.  The plugin chooses the id. */
  void (*call)(const struct fm_host *, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request);
  void (*pull)(const struct fm_host *, uint64_t call, uint32_t credits);
  void (*cancel)(const struct fm_host *, uint64_t call);

  /* Something that is not in this struct, named `fmail.<name>/<revision>`; NULL when the host has no such thing. */
  const void *(*extension)(const struct fm_host *, const char *id);
} fm_host;

/* What a plugin offers. */
typedef struct fm_plugin {
  uint64_t magic;       /* FM_MAGIC                                                             */
  uint32_t abi_major;   /* FM_ABI_MAJOR                                                         */
  uint32_t abi_minor;   /* FM_ABI_MINOR that the plugin was built with                          */
  uint32_t size;        /* sizeof(fm_plugin) in the plugin                                      */
  uint32_t reserved;    /* 0                                                                    */
  const char *manifest; /* JSON, ended by a zero byte: see docs/plugins/abi.md                  */

  /* Starts an instance and returns what the other functions get as `self`.  done(call) says that it is ready.  With an
   * error status the plugin has let go of everything already: the pointer is dead and `destroy` does not follow.
   * The envelope is JSON: {"role","instance","project":{"id","root"},"node","data_dir","features":[…],"config":{…}}. */
  void *(*create)(const fm_host *, uint64_t call, fm_bytes envelope);

  /* Starts a call.  A method that streams has no credit yet: it may send its first item when `pull` says so.
   * `context` is JSON or empty: {"deadline_ms","project","agent","principal","session","trace"}. */
  void (*call)(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request);
  /* So many more items may be sent. */
  void (*pull)(void *self, uint64_t call, uint32_t credits);
  /* The caller no longer waits.  A hint: one `done` still follows, and an unknown id is no mistake. */
  void (*cancel)(void *self, uint64_t call);
  /* Ends an instance.  done(call) says that every call is answered and every thread of it is gone. */
  void (*destroy)(void *self, uint64_t call);

  /* Answers to what the plugin has called.  NULL in a plugin that never calls the host. */
  void (*done)(void *self, uint64_t call, int32_t status, fm_bytes body);
  int32_t (*item)(void *self, uint64_t call, fm_bytes body);

  /* As in fm_host; may be NULL. */
  const void *(*extension)(void *self, const char *id);
} fm_plugin;

#if defined(_WIN32)
#define FM_EXPORT __declspec(dllexport)
#else
#define FM_EXPORT __attribute__((visibility("default")))
#endif

/* The only symbol.  Its name carries the major, so that one file can serve two majors. */
extern FM_EXPORT const fm_plugin fmail_plugin_v1;

/* Small things that every plugin writes otherwise. */
static inline fm_bytes fm_str(const char *text) {
  fm_bytes bytes;
  bytes.ptr = (const uint8_t *)text;
  bytes.len = strlen(text);
  return bytes;
}

static inline int fm_is(fm_bytes bytes, const char *text) {
  size_t len = strlen(text);
  return bytes.len == len && memcmp(bytes.ptr, text, len) == 0;
}

#ifdef __cplusplus
}
#endif
#endif
