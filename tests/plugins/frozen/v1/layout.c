/* Prints the layout of the ABI, as one header or another has it. */
#include <stdio.h>

#include "fmail_plugin.h"

#define FIELD(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
#define VALUE(name) printf("%s %lld\n", #name, (long long)(name))
#define SIZE(type) printf("sizeof %s %zu\n", #type, sizeof(type))

int main(void) {
  VALUE(FM_MAGIC);
  VALUE(FM_ABI_MAJOR);
  VALUE(FM_OK);
  VALUE(FM_END);
  VALUE(FM_E_INVALID);
  VALUE(FM_E_NOT_FOUND);
  VALUE(FM_E_CONFLICT);
  VALUE(FM_E_DENIED);
  VALUE(FM_E_UNSUPPORTED);
  VALUE(FM_E_UNAVAILABLE);
  VALUE(FM_E_CANCELLED);
  VALUE(FM_E_INTERNAL);
  VALUE(FM_E_PANIC);
  VALUE(FM_OFF);
  VALUE(FM_ERROR);
  VALUE(FM_WARN);
  VALUE(FM_INFO);
  VALUE(FM_DEBUG);
  VALUE(FM_TRACE);
  FIELD(fm_bytes, ptr);
  FIELD(fm_bytes, len);
  FIELD(fm_host, size);
  FIELD(fm_host, abi_minor);
  FIELD(fm_host, data);
  FIELD(fm_host, log_level);
  FIELD(fm_host, reserved);
  FIELD(fm_host, done);
  FIELD(fm_host, item);
  FIELD(fm_host, log);
  FIELD(fm_host, call);
  FIELD(fm_host, pull);
  FIELD(fm_host, cancel);
  FIELD(fm_host, extension);
  FIELD(fm_plugin, magic);
  FIELD(fm_plugin, abi_major);
  FIELD(fm_plugin, abi_minor);
  FIELD(fm_plugin, size);
  FIELD(fm_plugin, reserved);
  FIELD(fm_plugin, manifest);
  FIELD(fm_plugin, create);
  FIELD(fm_plugin, call);
  FIELD(fm_plugin, pull);
  FIELD(fm_plugin, cancel);
  FIELD(fm_plugin, destroy);
  FIELD(fm_plugin, done);
  FIELD(fm_plugin, item);
  FIELD(fm_plugin, extension);
  SIZE(fm_bytes);
  SIZE(fm_host);
  SIZE(fm_plugin);
  return 0;
}
