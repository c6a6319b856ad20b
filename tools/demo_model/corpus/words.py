"""Word lists. English and Indonesian; plain ASCII."""

ANIMALS_EN = """cat dog mouse rabbit fox bear lion tiger elephant monkey horse cow pig goat sheep duck
goose hen rooster owl crow parrot penguin frog turtle snail ant bee butterfly spider beetle firefly fish whale
dolphin shark crab octopus seal otter beaver squirrel hedgehog badger mole deer moose wolf raccoon panda koala
kangaroo giraffe zebra hippo rhino camel donkey llama hamster kitten puppy bat swan eagle sparrow robin lizard
crocodile snake dinosaur dragon unicorn worm pigeon peacock lamb pony chick seagull starfish jellyfish
gecko chameleon sloth flamingo ladybug caterpillar grasshopper goldfish cheetah leopard buffalo gorilla""".split()

PEOPLE_EN = """princess prince king queen knight wizard witch giant pirate farmer baker fisherman teacher
painter gardener clown robot sailor doctor tailor shepherd miller musician dancer inventor carpenter postman
girl boy grandmother grandfather astronaut ghost mermaid elf dwarf fairy snowman scarecrow cook chef detective
soldier writer poet student programmer barber librarian beekeeper cowboy ninja superhero star cloud tree vampire monster alien
magician mechanic nurse pilot hunter merchant potter blacksmith watchmaker""".split() + [
    "lighthouse keeper", "teddy bear", "polar bear", "bus driver", "fire fighter", "street musician", "police officer", "snow leopard",
    "sea turtle", "baby elephant", "baby bird", "guinea pig", "taxi driver", "toy maker", "window cleaner", "mail carrier"]

OBJECTS_EN = """boat kite ball bicycle drum violin guitar lamp candle clock watch mirror key book pencil pen
hat coat shoe umbrella basket bucket box cup teapot spoon ladder wagon train car bus truck tractor airplane
rocket balloon doll puppet toy map coin ring crown necklace bell whistle flute piano camera telescope compass
lantern broom chair table bed blanket pillow flower apple pumpkin carrot potato tomato
seed leaf stone shell feather sandcastle tent radio computer phone toaster kettle
bottle letter scarf backpack shovel wheel stick rope""".split()

PLACES_EN = """forest beach mountain river lake desert island village city farm garden park school library
market museum castle cave jungle valley harbor zoo circus lighthouse bakery hill meadow swamp playground
moon sea train station waterfall""".replace("train station", "station").split()

THEMES_EN = """friendship kindness rain snow courage music honesty summer winter spring autumn night love hope
patience sharing dreams silence luck home family colors wind rainbows thunder football chess cooking
painting reading dancing magic treasure stars birthdays holidays pancakes ice-cream soup bread honey
cheese chocolate space time peace gratitude teamwork""".split()

NAMES_EN_F = """Lily Mia Anna Emma Sofia Ruby Daisy Luna Nora Ella Zoe Clara Rosie Ivy Hazel Molly Penny
Tilly Stella Olive Maya Lucy Grace Poppy Wendy""".split()
NAMES_EN_M = """Tom Max Ben Leo Sam Finn Oscar Jack Milo Theo Hugo Felix Toby Charlie Oliver Barney Rusty
Pip George Henry Gus Otto Jasper Noah Arlo""".split()

GIRLS_EN = set("princess queen witch grandmother mermaid fairy girl".split())
BOYS_EN = set("prince king wizard grandfather boy postman cowboy snowman".split())

FRIENDS_EN = """rabbit fox bear mouse squirrel hedgehog owl sparrow robin turtle frog deer goat sheep pony duck goose
badger beaver donkey cat dog lamb hen crow raccoon pigeon otter hamster monkey""".split()

FRIENDS_ID = """kelinci rubah beruang tikus tupai landak merpati kura-kura katak rusa kambing domba bebek angsa
keledai kucing anjing monyet gajah kancil burung ayam kerbau berang-berang bangau musang beo kuda""".split()

FOODS_EN = """berries apples bread cheese soup cookies nuts honey pancakes carrots pears plums cake rice
potatoes corn""".split()

ADJ_EN = """little small brave kind shy clever curious gentle happy young quiet cheerful lonely friendly
sleepy tiny old wise big funny""".split()

ANIMALS_ID = """kucing anjing tikus kelinci rubah beruang singa harimau gajah monyet kuda sapi kambing domba
bebek angsa ayam burung gagak merpati katak kura-kura siput semut lebah kupu-kupu laba-laba kumbang
kunang-kunang ikan paus hiu kepiting gurita berang-berang tupai landak rusa serigala panda koala
kanguru jerapah zebra badak unta keledai hamster kelelawar elang kadal buaya ular naga kancil kerbau bangau
cicak belalang capung ulat cacing orangutan komodo beo kakatua penyu udang musang trenggiling
bunglon jangkrik""".split() + ["anak kucing", "anak anjing", "burung hantu", "burung pipit", "kuda nil", "bintang laut",
                     "lumba-lumba", "anak ayam", "burung merak", "kuda laut"]

PEOPLE_ID = """putri pangeran raja ratu ksatria penyihir raksasa petani nelayan guru pelukis penari dokter
penjahit penggembala pelaut badut robot koki tukang pedagang peri hantu astronot kakek nenek
pemusik pengrajin bajak-laut tentara penulis penyair siswa mahasiswa pilot perawat montir detektif sopir
pandai-besi""".replace("-", " ").split() 
PEOPLE_ID = [w for w in PEOPLE_ID if w not in ("bajak", "laut", "pandai", "besi", "tukang")] + [
    "bajak laut", "pandai besi", "tukang roti", "tukang kebun", "tukang kayu", "anak laki-laki",
    "anak perempuan", "tukang pos", "penjual bakso", "tukang becak", "pemadam kebakaran"]

OBJECTS_ID = """perahu layang-layang bola sepeda gendang biola gitar lampu lilin jam cermin kunci buku pensil
pena topi jaket sepatu payung keranjang ember kotak cangkir teko sendok tangga kereta mobil bus truk traktor
pesawat roket balon boneka peta koin cincin mahkota kalung lonceng peluit seruling piano kamera teropong
kompas lentera sapu kursi meja selimut bantal bunga apel labu wortel kentang
tomat benih daun batu kerang bulu tenda radio komputer telepon botol surat tas sekop roda tali
angklung wayang becak ketupat kelapa pisang mangga""".split()

PLACES_ID = """hutan pantai gunung sungai danau gurun pulau desa kota kebun taman sekolah perpustakaan pasar
museum istana gua lembah pelabuhan sawah bukit bulan laut stasiun ladang rawa alun-alun mercusuar
""".split() + ["air terjun", "kebun binatang"]

THEMES_ID = """persahabatan kebaikan hujan salju keberanian musik kejujuran malam harapan kesabaran mimpi
keberuntungan rumah keluarga angin pelangi petir catur memasak melukis membaca menari harta
ulang-tahun liburan roti madu cokelat waktu perdamaian gotong-royong nasi sambal rendang bakso
""".replace("ulang-tahun", "").replace("gotong-royong", "").split() + [
    "ulang tahun", "gotong royong", "sepak bola", "rasa syukur", "harta karun"]

NAMES_ID = """Budi Siti Rina Dewi Adi Agus Wati Sari Putri Joko Tono Lina Maya Dian Eko Fajar Gita Hadi Indra
Jaya Kiki Laras Mira Nina Oka Rini Surya Tari Umar Wayan Yanti Zahra Bima Citra Dimas Intan Kirana Lala
Momo Pipit Bobo Tiko Ucil Koko Nana Bela""".split()

FOODS_ID = """pisang mangga roti nasi singkong kue jagung madu kacang kelapa jeruk pepaya bubur ubi
semangka""".split()

ADJ_ID = ["kecil", "pemberani", "baik hati", "pemalu", "cerdik", "lucu", "muda", "pendiam", "ceria", "ramah", "rajin", "tua", "bijak", "penakut"]

COUNTRIES = """France Spain Italy Germany Japan China India Brazil Canada Mexico Egypt Kenya Turkey Poland
Norway Sweden Greece Peru Chile Vietnam Thailand Malaysia Australia Russia Portugal Morocco Nigeria
Argentina Indonesia Korea""".split()

COUNTRIES_ID = """Prancis Spanyol Italia Jerman Jepang Tiongkok India Brasil Kanada Meksiko Mesir Kenya Turki
Polandia Norwegia Swedia Yunani Peru Chili Vietnam Thailand Malaysia Australia Rusia Portugal Maroko Nigeria
Argentina Indonesia Korea""".split()
