#define TABLE
#include "base.h"
const fm_plugin fmail_plugin_v1 = {FM_MAGIC, FM_ABI_MAJOR, FM_ABI_MINOR, sizeof(fm_plugin), 0, MANIFEST,
                                   CREATE, CALL, NULL, CANCEL, DESTROY, DONE, ITEM, NULL};
void *use = (void *)PULL;
