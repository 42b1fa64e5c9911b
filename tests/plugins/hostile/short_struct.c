/* Ends before its functions: whatever follows must not be read. */
#define TABLE
#include "base.h"
struct cut { uint64_t magic; uint32_t major, minor, size, reserved; const char *manifest; };
extern FM_EXPORT const struct cut fmail_plugin_v1_;
const struct cut fmail_plugin_v1_ = {FM_MAGIC, FM_ABI_MAJOR, FM_ABI_MINOR, sizeof(struct cut), 0, MANIFEST};
extern FM_EXPORT const struct cut alias __asm__("fmail_plugin_v1") __attribute__((alias("fmail_plugin_v1_")));
void *use[] = {(void *)CREATE, (void *)CALL, (void *)PULL, (void *)CANCEL, (void *)DESTROY};
