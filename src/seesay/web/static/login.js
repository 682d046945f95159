// The page that asks for the token: in the reader's language, and from it to the address that was asked for.

import { translate } from "./words.js";

document.querySelector("form").action = `login${location.search}`;
translate();
