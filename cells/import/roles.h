/* Which axes are the batch's and which are time: the recurrent nodes say. What neither is, is of
 * features, whose number the file states. */
#ifndef CELLS_IMPORT_ROLES_H
#define CELLS_IMPORT_ROLES_H

#include "cells/import/graph.h"

/* Of all atoms, once nodes are known that are needed. UNIMPLEMENTED. */
enum base_status cell__set_roles(struct cell__import *im);

#endif
